/**
 * How mlx_lm.server 0.32 answers, as it was seen to and as its source says.
 */
import { type Asked, type Fields, promptTokens, type Reply, said } from './engine-stand-ins.ts';

const top = { system_fingerprint: '0.32.2-0.32.4-stand-in', model: 'default_model', created: 1 };

export function mlxAnswer(): (asked: Asked) => Reply {
  /** A question that it does not survive ends it for all that come after. */
  let is_dead = false;
  const seen = new Set<string>();
  return ({ path, headers, fields }) => {
    const is_chat = path === '/v1/chat/completions';
    if (!is_chat && path !== '/v1/completions') return { status: 404, body: 'Not Found' };
    if (headers['content-length'] === undefined) {
      return told(411, 'Content-Length header is required');
    }
    if (fields === null) return told(400, 'Invalid JSON in request body');
    const wrong = problemOf(fields, is_chat);
    if (wrong !== null) return told(400, wrong);
    if (is_dead || Array.isArray(fields.prompt)) {
      is_dead = true;
      return told(404, 'generation thread died');
    }
    const unloaded = [fields.adapters, fields.draft_model].some((one) => one !== undefined);
    if (fields.model !== 'default_model' || unloaded) return told(404, 'Repository Not Found');
    const messages = is_chat ? (fields.messages as Fields[]) : [];
    if (messages.some(({ role }) => role === undefined)) {
      return told(404, "'dict object' has no attribute 'role'");
    }
    const prompt = JSON.stringify(is_chat ? messages : fields.prompt);
    const cached_tokens = seen.has(prompt) ? promptTokens(fields) - 1 : 0;
    seen.add(prompt);
    return answered(fields, is_chat, cached_tokens);
  };
}

function told(status: number, error: string): Reply {
  return { status, body: { error } };
}

function problemOf(fields: Fields, is_chat: boolean): string | null {
  if (typeof (fields.logprobs ?? false) !== 'boolean') return 'logprobs must be of type bool';
  if (is_chat && fields.messages === undefined) return 'Request did not contain messages';
  if (!is_chat && fields.prompt === undefined) return 'Request did not contain a prompt';
  return null;
}

function answered(fields: Fields, is_chat: boolean, cached_tokens: number): Reply {
  const { words, tokens, finish_reason } = said(fields.max_completion_tokens ?? fields.max_tokens);
  const prompt_tokens = promptTokens(fields);
  const usage = {
    ...{ prompt_tokens, completion_tokens: tokens, total_tokens: prompt_tokens + tokens },
    prompt_tokens_details: { cached_tokens },
  };
  const piece = (name: 'delta' | 'message', text: string | null, why: string | null) => ({
    ...{ index: 0, finish_reason: why },
    ...(is_chat
      ? { [name]: { role: 'assistant', ...(text ? { content: text } : {}) } }
      : { text: text ?? '' }),
  });
  const kind = is_chat ? 'chat.completion' : 'text_completion';
  const id = is_chat ? 'chatcmpl-1' : 'cmpl-1';
  if (fields.stream !== true) {
    const logprobs = fields.logprobs ? { logprobs: { content: words.map(logprobOf) } } : {};
    const choice = { ...piece('message', words.join(''), finish_reason), ...logprobs };
    return { status: 200, body: { id, ...top, object: kind, choices: [choice], usage } };
  }
  const chunk = (choice: Fields) =>
    event({ id, ...top, object: is_chat ? `${kind}.chunk` : kind, choices: [choice] });
  const start = [
    ': keepalive 1/1\n\n',
    ...words.map((word) => chunk(piece('delta', word, null))),
    chunk(piece('delta', null, finish_reason)),
  ];
  const options = fields.stream_options as Fields | null | undefined;
  // It looks for a field that is not there, and breaks off.
  if (options && options.include_usage === undefined) return { events: [...start, null] };
  // Of completions it calls this one a chat as well.
  const end = event({ id, ...top, object: 'chat.completion', choices: [], usage });
  return { events: [...start, ...(options?.include_usage ? [end] : []), 'data: [DONE]\n\n'] };
}

function logprobOf(token: string, id: number) {
  return { id, token, logprob: 0, top_logprobs: [{ id, token, logprob: 0 }] };
}

/** Python writes blanks between. */
function event(data: Fields): string {
  return `data: ${JSON.stringify(data, null, 1).replace(/\n */g, ' ')}\n\n`;
}
