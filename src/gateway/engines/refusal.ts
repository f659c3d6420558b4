/**
 * An engine's refusal, in OpenAI's shape and with the status that it should have had.
 *
 * Invariants: what blames the client for our own doing (the engine's key, a path that it lacks)
 * becomes 502; what the client did is 4xx, whatever status the engine gave it, so that it is
 * neither tried elsewhere nor held against the engine; a busy engine says that waiting helps.
 * Shapes: `{"error":{...}}`, `{"error":"text"}` of mlx_lm.server, `{"detail":...}` of FastAPI,
 * `{"object":"error","message":...}` of older vLLM, and none at all.
 */
import type { Refusal } from '../errors.ts';
import { type Fields, isFields } from '../whole/fields.ts';

/** How long to wait for an engine that is busy. */
const busy_retry_s = 2;

/** What clients did that engines tell as their own failures, by what they say of it. */
const blames: readonly { says: RegExp; code: string }[] = [
  // llama-server and vLLM, both with 400 and with 500 (vllm-project/router#148).
  {
    says: /maximum context length|exceeds the (?:available context size|maximum)/i,
    code: 'context_length_exceeded',
  },
  { says: /(?:image|audio|video) input is not supported/i, code: 'not_supported' },
  { says: /does not support (?:embeddings|reranking)|not support .* API/i, code: 'not_supported' },
  { says: /^(?:failed to parse (?:messages|tools|json)|\[json\.exception)/i, code: 'bad_request' },
];

/** An engine that can do no more says so, sometimes as if the client had done something. */
const broken =
  /out of memory|insufficient memory|failed to allocate|command buffer|cuda error|thread died/i;

const engine_codes: Record<string, string> = {
  exceed_context_size_error: 'context_length_exceeded',
};

/** Kinds of errors that are vLLM's own names; those of OpenAI follow from the status. */
const own_types = /^(?:Bad ?Request(?:Error)?|NotFoundError|InternalServerError|[A-Z]\w+Error)$/;

/** An answer with another status than success. */
export function refusalOfEngine(status: number, body: Uint8Array): Refusal {
  return refusalOfError(status, parse(body));
}

/** An error inside a stream that began well. */
export function refusalOfEvent(error: unknown): Refusal {
  const { code } = isFields(error) ? error : { code: null };
  const is_status = typeof code === 'number' && code >= 400 && code <= 599;
  return refusalOfError(is_status ? code : 500, { error });
}

/** Would every other engine say the same? */
export function blamesClient({ status }: Refusal): boolean {
  return status >= 400 && status < 500 && status !== 408 && status !== 429;
}

type Told = { message: string | null; type: string | null; param: string | null; is_text: boolean };

function refusalOfError(status: number, said: unknown): Refusal {
  const told = readError(said);
  const { message, type, param } = told;
  if (status === 503 || status === 429) {
    const code = status === 503 ? 'not_ready' : 'engine_busy';
    const busy = message ?? 'The engine is busy.';
    return { status, message: busy, code, retry_after_s: busy_retry_s };
  }
  const blame = message === null ? undefined : blames.find(({ says }) => says.test(message));
  if (blame !== undefined && message !== null) {
    return { status: 400, message, code: blame.code, param };
  }
  if (status === 404 && isPathLacking(told)) return lacking;
  if (message === null || isOurs(status, told)) return unusable(status, isOurs(status, told));
  const unnamed = status >= 500 ? 'engine_error' : null;
  const code = type === null ? unnamed : (engine_codes[type] ?? type);
  // mlx_lm.server gives 404 to whatever fails before the first token.
  const passed = status === 404 ? 400 : status;
  return { status: passed, message, code, param, ...(type === null ? {} : { type }) };
}

/** Every path that is asked for is one of the API: without it, the model is of another kind. */
function isPathLacking({ message }: Told): boolean {
  return message === null || /^(?:file )?not found$/i.test(message);
}

const lacking = {
  status: 400,
  message: 'The engine of this endpoint does not answer this API with its model.',
  code: 'not_supported',
} satisfies Refusal;

function isOurs(status: number, { is_text, message }: Told): boolean {
  if (broken.test(message ?? '')) return true;
  if (status === 404) return !is_text;
  return status < 400 || status > 599 || [401, 403, 405, 411].includes(status);
}

function unusable(status: number, is_ours: boolean): Refusal {
  const message = `The engine answered with status ${status}, which the gateway cannot use.`;
  const is_no_failure = is_ours && (status < 500 || status > 599);
  return { status: is_no_failure ? 502 : status, message, code: 'engine_error' };
}

function readError(said: unknown): Told {
  const none: Told = { message: null, type: null, param: null, is_text: false };
  if (!isFields(said)) return none;
  const is_bare = said.object === 'error' && typeof said.message === 'string';
  const error = is_bare ? said : (said.error ?? said.detail);
  if (Array.isArray(error)) return { ...none, message: textOf(error.map(problemOf).join('; ')) };
  if (!isFields(error)) {
    const message = textOf(error);
    return { ...none, message, is_text: message !== null && 'error' in said };
  }
  const { message, param } = error;
  const type = own_types.test(String(error.type)) ? null : textOf(error.type);
  return { ...none, message: textOf(message), type, param: textOf(param) };
}

/** One of FastAPI's: which field, and what of it. */
function problemOf(problem: unknown): string {
  if (!isFields(problem)) return String(problem);
  const place = Array.isArray(problem.loc) ? problem.loc.slice(1).join('.') : '';
  return [place, textOf(problem.msg)].filter(Boolean).join(': ');
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}

function parse(body: Uint8Array): Fields | null {
  try {
    return JSON.parse(Buffer.from(body).toString('utf8'));
  } catch {
    return null;
  }
}
