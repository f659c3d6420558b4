/**
 * How vLLM 0.32 answers, as it was seen to.
 */
import { type Asked, type Fields, promptTokens, type Reply, said } from './engine-stand-ins.ts';
import { vllmResponse } from './vllm-stand-in-response.ts';

const max_model_len = 512;
const finger = { system_fingerprint: 'vllm-0.32.0-stand-in' };

export function vllmAnswer(): (asked: Asked) => Reply {
  /** Prompts that were read, by their salt. */
  const seen = new Set<string>();
  return ({ path, fields }) => {
    const is_chat = path === '/v1/chat/completions';
    if (!is_chat && path !== '/v1/completions' && path !== '/v1/responses') {
      return { status: 404, body: { detail: 'Not Found' } };
    }
    if (fields === null) return refused('Bad Request', '1 validation error: json_invalid', 'body');
    if (fields.model !== 'smol') {
      return told(404, 'NotFoundError', `The model \`${fields.model}\` does not exist.`, 'model');
    }
    if (path === '/v1/responses') return vllmResponse(fields);
    const wrong = problemOf(fields, is_chat);
    if (wrong !== null) return wrong;
    const prompt = JSON.stringify([fields.cache_salt ?? null, fields.messages, fields.prompt]);
    const cached_tokens = seen.has(prompt) ? promptTokens(fields) - 1 : 0;
    seen.add(prompt);
    return fields.stream === true
      ? { events: streamed(fields, is_chat, cached_tokens) }
      : { status: 200, body: whole(fields, is_chat, cached_tokens) };
  };
}

function told(status: number, type: string, message: string, param: string | null): Reply {
  return { status, body: { error: { message, type, param, code: status } } };
}

function refused(type: string, message: string, param: string | null = null): Reply {
  return told(400, type, message, param);
}

function problemOf(fields: Fields, is_chat: boolean): Reply | null {
  const validation = (param: string) =>
    refused('Bad Request', `1 validation error: {'loc': '${param}'}`, param);
  if (!Number.isInteger(fields.priority ?? 0)) return validation('body.priority');
  if (typeof (fields.request_id ?? '') !== 'string') return validation('body.request_id');
  if (is_chat && !Array.isArray(fields.messages)) return validation('body.messages');
  const messages = is_chat ? (fields.messages as Fields[]) : [];
  if (messages.some(({ role }) => role === undefined)) return validation('body.messages.0');
  if (fields.stream_options !== undefined && fields.stream !== true) {
    const message = 'Stream options can only be defined when `stream=True`.';
    return refused('BadRequestError', message, 'stream_options');
  }
  if (fields.stream === true && fields.prompt_logprobs !== undefined) {
    const message = '`prompt_logprobs` are not available when `stream=True`.';
    return refused('BadRequestError', message, 'prompt_logprobs');
  }
  if (promptTokens(fields) < max_model_len) return null;
  const message = `This model's maximum context length is ${max_model_len} tokens. However, you`;
  return refused('BadRequestError', message, 'input_tokens');
}

function usageOf(prompt_tokens: number, completion_tokens: number) {
  return { prompt_tokens, total_tokens: prompt_tokens + completion_tokens, completion_tokens };
}

/** `n` for each prompt. */
function choicesOf({ prompt, n }: Fields): number[] {
  const prompts = Array.isArray(prompt) ? prompt.length : 1;
  return Array.from({ length: prompts * (typeof n === 'number' ? n : 1) }, (_, index) => index);
}

function whole(fields: Fields, is_chat: boolean, cached_tokens: number): Fields {
  const { words, tokens, finish_reason } = said(fields.max_tokens);
  const text = words.join('');
  const choices = choicesOf(fields).map((index) => ({
    ...{ index, finish_reason, stop_reason: null, token_ids: null },
    logprobs: fields.logprobs ? logprobsOf(words) : null,
    ...(is_chat ? { message: { role: 'assistant', content: text, refusal: null } } : { text }),
  }));
  const usage = {
    ...usageOf(promptTokens(fields), tokens * choices.length),
    prompt_tokens_details: { cached_tokens },
  };
  return { ...topOf(is_chat, ''), choices, usage, ...finger, prompt_logprobs: null };
}

function streamed(fields: Fields, is_chat: boolean, cached_tokens: number): string[] {
  const { words, tokens, finish_reason } = said(fields.max_tokens);
  const options = (fields.stream_options ?? {}) as Fields;
  const prompt_tokens = promptTokens(fields);
  const top = topOf(is_chat, '.chunk');
  const chunk = (choice: Fields, count: number, is_last = false) => {
    const so_far = { usage: usageOf(prompt_tokens, count) };
    const usage = options.include_usage && options.continuous_usage_stats ? so_far : {};
    // With the usage the fingerprint goes to the end.
    const print = is_last && !options.include_usage ? finger : {};
    return event({ ...top, choices: [choice], ...usage, ...print });
  };
  const events = choicesOf(fields).flatMap((index) => {
    const role = { index, delta: { role: 'assistant', content: '' }, finish_reason: null };
    const pieces = [...words, ...(tokens > words.length ? [''] : [])];
    return [
      ...(is_chat ? [chunk({ ...role, logprobs: null }, 0)] : []),
      ...pieces.map((text, at) => {
        const is_last = at === pieces.length - 1;
        // The last piece of a text says why it ends.
        const end = is_last ? { finish_reason, stop_reason: null } : { finish_reason: null };
        const piece = is_chat ? { delta: { content: text } } : { text };
        const logprobs = fields.logprobs && text !== '' ? logprobsOf([text]) : null;
        return chunk({ index, ...piece, logprobs, ...end, token_ids: null }, at + 1, is_last);
      }),
    ];
  });
  const usage = {
    ...usageOf(prompt_tokens, tokens * choicesOf(fields).length),
    prompt_tokens_details: { cached_tokens },
  };
  const end = options.include_usage ? [event({ ...top, choices: [], usage, ...finger })] : [];
  return [...events, ...end, 'data: [DONE]\n\n'];
}

function topOf(is_chat: boolean, suffix: string): Fields {
  const object = is_chat ? `chat.completion${suffix}` : 'text_completion';
  return { id: is_chat ? 'chatcmpl-1' : 'cmpl-1', object, created: 1, model: 'smol' };
}

function logprobsOf(words: readonly string[]) {
  const content = words.map((token) => {
    const one = { token, logprob: 0, bytes: [...Buffer.from(token)] };
    return { ...one, top_logprobs: [one] };
  });
  return { content };
}

function event(data: Fields): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}
