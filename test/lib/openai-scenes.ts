/**
 * An engine that plays what the prompt names, so that one client can go through all of it: `hello`,
 * `tools`, `cut`, `oops` and so on.
 *
 * Invariants: it answers both ways, streamed and whole, with the same content; what it was asked is
 * counted per scene; `after SCENE` is answered once nobody holds a connection of that scene.
 */
import type { ServerResponse } from 'node:http';
import { json, type Script, type Seen, type Upstream } from './upstream.ts';

export const hello = 'Hello, wörld 🙂 of ours';
const usage = { prompt_tokens: 7, completion_tokens: 4, total_tokens: 11 };
const base = { id: 'chatcmpl-1', created: 1_700_000_000, model: 'smol' };

export type Scenes = {
  /** How often a scene was asked for. */
  asked(scene: string): number;
};

export function playScenes(upstream: Upstream): Scenes {
  const seen = new Map<string, Seen[]>();
  const of = (scene: string) => seen.get(scene) ?? [];
  upstream.answer(async (reply, question) => {
    const fields = JSON.parse(question.body) as Fields;
    const scene = sceneOf(fields);
    seen.set(scene, [...of(scene), question]);
    if (scene.startsWith('after ')) {
      await Promise.all(of(scene.slice('after '.length)).map(({ gone }) => gone));
    }
    return scriptOf(scene, of(scene).length, question.path, fields)(reply, question);
  });
  return { asked: (scene) => of(scene).length };
}

type Fields = {
  stream?: boolean;
  stream_options?: { include_usage?: boolean };
  messages?: { content: string }[];
  prompt?: string;
  input?: string;
  query?: string;
  encoding_format?: string;
};

function sceneOf({ messages, prompt, input, query }: Fields): string {
  return messages?.[0]?.content ?? prompt ?? input ?? query ?? '';
}

const llama = (status: number, message: string, type: string) =>
  json(status, { error: { code: status, message, type } });

function scriptOf(scene: string, turn: number, path: string, fields: Fields): Script {
  if (path === '/v1/embeddings') return embeddings(fields);
  if (path === '/v1/rerank') return json(200, { results: [{ index: 1, relevance_score: 0.5 }] });
  if (path === '/v1/responses') return response(fields);
  if (path === '/v1/completions') return fields.stream ? stream(completion()) : json(200, legacy());
  switch (scene) {
    case 'bad':
      return llama(400, 'top_p is odd', 'invalid_request_error');
    case 'long':
      return llama(400, 'request exceeds the context', 'exceed_context_size_error');
    case 'odd':
      return json(422, { detail: 'not so' });
    case 'oops':
      return llama(500, 'oops', 'server_error');
    case 'loading':
      if (turn === 1) return llama(503, 'Loading model', 'unavailable_error');
      break;
    case 'silent':
      return () => {};
    case 'cut':
      return streamed(['so'], (reply) => reply.destroy());
    case 'endless':
      return streamed(['on', ' and'], () => {});
  }
  const wanted = scene === 'tools' ? tools(fields) : chat(fields);
  return fields.stream ? stream(wanted.chunks) : json(200, wanted.whole);
}

type Chat = { chunks: object[]; whole: object };

function chat(fields: Fields): Chat {
  const words = hello.match(/\S+\s*/g) ?? [];
  const whole = { role: 'assistant', content: hello };
  return {
    chunks: [
      ...[{ role: 'assistant', content: null }, ...words.map((content) => ({ content }))].map(
        (delta) => chunk(delta, null),
      ),
      chunk({}, 'stop'),
      ...usageChunk(fields),
    ],
    whole: wholeChat(whole, 'stop'),
  };
}

function tools(fields: Fields): Chat {
  const call = { id: 'call_1', type: 'function' };
  const part = (index: number, rest: object) => chunk({ tool_calls: [{ index, ...rest }] }, null);
  const calls = ['weather', 'clock'].map((name, index) => ({
    ...call,
    id: `call_${index + 1}`,
    function: { name, arguments: '{"place":"Köln"}' },
  }));
  return {
    chunks: [
      chunk({ role: 'assistant', content: null }, null),
      ...calls.flatMap(({ function: { name }, ...rest }, index) => [
        part(index, { ...rest, function: { name, arguments: '' } }),
        part(index, { function: { arguments: '{"place":' } }),
        part(index, { function: { arguments: '"Köln"}' } }),
      ]),
      chunk({}, 'tool_calls'),
      ...usageChunk(fields),
    ],
    whole: wholeChat({ role: 'assistant', content: null, tool_calls: calls }, 'tool_calls'),
  };
}

function chunk(delta: object, finish_reason: string | null) {
  const choices = [{ index: 0, delta, finish_reason }];
  return { ...base, object: 'chat.completion.chunk', choices };
}

function usageChunk({ stream_options }: Fields): object[] {
  const asked = stream_options?.include_usage === true;
  return asked ? [{ ...base, object: 'chat.completion.chunk', choices: [], usage }] : [];
}

function wholeChat(message: object, finish_reason: string) {
  const choices = [{ index: 0, message, finish_reason }];
  return { ...base, object: 'chat.completion', choices, usage };
}

function completion(): object[] {
  const text = (piece: string, finish_reason: string | null, more = {}) => ({
    ...{ ...base, object: 'text_completion', ...more },
    choices: [{ text: piece, index: 0, logprobs: null, finish_reason }],
  });
  return [text('Hello,', null), text(' again', null), text('', 'stop', { usage })];
}

function legacy() {
  const choices = [{ text: 'Hello, again', index: 0, logprobs: null, finish_reason: 'stop' }];
  return { ...base, object: 'text_completion', choices, usage };
}

/** As floats, or as base64 of 32-bit floats where that was asked for. */
function embeddings({ encoding_format }: Fields): Script {
  const values = [0.5, -1.25, 3];
  const packed = Buffer.from(new Float32Array(values).buffer).toString('base64');
  const embedding = encoding_format === 'base64' ? packed : values;
  const data = [{ object: 'embedding', index: 0, embedding }];
  const used = { prompt_tokens: 3, total_tokens: 3 };
  return json(200, { object: 'list', data, model: 'smol', usage: used });
}

function response(fields: Fields): Script {
  const part = { type: 'output_text', annotations: [], logprobs: [], text: hello };
  const item = { type: 'message', id: 'msg_1', role: 'assistant', status: 'completed' };
  const whole = {
    ...{ id: 'resp_1', object: 'response', created_at: 1_700_000_000, model: 'smol' },
    ...{ status: 'completed', output: [{ ...item, content: [part] }] },
    usage: {
      ...{ input_tokens: 7, output_tokens: 4, total_tokens: 11 },
      input_tokens_details: { cached_tokens: 0 },
    },
  };
  if (fields.stream !== true) return json(200, whole);
  const place = { item_id: 'msg_1', output_index: 0, content_index: 0 };
  const started = { ...whole, status: 'in_progress', output: [], usage: null };
  const told = [
    { type: 'response.created', response: started },
    { type: 'response.in_progress', response: started },
    {
      type: 'response.output_item.added',
      output_index: 0,
      item: { ...item, status: 'in_progress', content: [] },
    },
    { type: 'response.content_part.added', ...place, part: { ...part, text: '' } },
    ...(hello.match(/\S+\s*/g) ?? []).map((delta) => ({
      type: 'response.output_text.delta',
      ...place,
      delta,
    })),
    { type: 'response.output_text.done', ...place, text: hello },
    { type: 'response.content_part.done', ...place, part },
    { type: 'response.output_item.done', output_index: 0, item: { ...item, content: [part] } },
    { type: 'response.completed', response: whole },
  ];
  return async (reply) => {
    reply.writeHead(200, { 'Content-Type': 'text/event-stream' });
    for (const [sequence_number, event] of told.entries()) {
      const data = JSON.stringify({ ...event, sequence_number });
      await write(reply, `event: ${event.type}\ndata: ${data}\n\n`);
    }
    reply.end();
  };
}

function stream(chunks: readonly object[]): Script {
  return async (reply) => {
    reply.writeHead(200, { 'Content-Type': 'text/event-stream' });
    for (const one of chunks) await write(reply, `data: ${JSON.stringify(one)}\n\n`);
    reply.end('data: [DONE]\n\n');
  };
}

/** Some content, and then not what should follow; always a stream. */
function streamed(contents: readonly string[], last: (reply: ServerResponse) => void): Script {
  return async (reply) => {
    reply.writeHead(200, { 'Content-Type': 'text/event-stream' });
    for (const delta of [{ role: 'assistant' }, ...contents.map((content) => ({ content }))])
      await write(reply, `data: ${JSON.stringify(chunk(delta, null))}\n\n`);
    last(reply);
  };
}

async function write(reply: ServerResponse, text: string): Promise<void> {
  await new Promise((resolve) => reply.write(text, resolve));
}
