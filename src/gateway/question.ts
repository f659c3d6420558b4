/**
 * The body of a request: read under a limit, parsed here, and written again for the engine.
 *
 * Invariants: what is no JSON object with a `model` never reaches an engine (llama-server would
 * answer 500 and look broken); unknown fields go through; fields that steer the engine beyond
 * this request do not. Errors are values.
 */
import type { IncomingMessage } from 'node:http';
import { limits } from '../contract/limits.ts';
import type { Deadlines } from './deadlines.ts';
import { type Refusal, refusals } from './errors.ts';
import type { Stop } from './stop.ts';

export type Question = {
  /** Let go once no engine can be asked it any more. */
  fields: Record<string, unknown>;
  model: string;
  stream: boolean;
};
export type Read<T> = { ok: true; value: T } | { ok: false; refusal: Refusal };

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** Reads and parses the body. Settles when `stop` is told, whatever the client does. */
export async function readQuestion(
  request: IncomingMessage,
  stop: Stop,
  deadlines: Deadlines,
): Promise<Read<Question>> {
  const type = request.headers['content-type'] ?? '';
  const encoding = request.headers['content-encoding'] ?? 'identity';
  if (!/^application\/json\s*(?:;|$)/i.test(type) || encoding !== 'identity') {
    return { ok: false, refusal: refusals.notJson };
  }
  const body = await readBody(request, stop, deadlines);
  return body.ok ? parseQuestion(body.value) : body;
}

function readBody(
  request: IncomingMessage,
  stop: Stop,
  deadlines: Deadlines,
): Promise<Read<Buffer>> {
  const limit = limits.gateway_body_bytes;
  if (Number(request.headers['content-length'] ?? 0) > limit) return Promise.resolve(tooLarge());
  if (stop.reason() !== null) return Promise.resolve(invalid('the body broke off'));
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const settle = (result: Read<Buffer>) => {
      deadlines.clear('silence');
      undo();
      // An answer may go on for long, and must not hold what these hold.
      request.removeListener('data', onData);
      request.removeListener('end', onEnd);
      request.removeListener('error', onBreak);
      // The rest is read and dropped, so that the client gets to read the answer.
      request.resume();
      resolve(result);
    };
    const onData = (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > limit) return settle(tooLarge());
      chunks.push(chunk);
      deadlines.touch('silence');
    };
    const onEnd = () => settle({ ok: true, value: joined(chunks) });
    const onBreak = () => settle(invalid('the body broke off'));
    const onSilence = () => settle({ ok: false, refusal: refusals.slowBody });
    deadlines.set('silence', limits.gateway_body_silence_ms, onSilence);
    const undo = stop.on(onBreak);
    request.on('data', onData);
    request.once('end', onEnd);
    request.once('error', onBreak);
  });
}

function joined(chunks: readonly Buffer[]): Buffer {
  const [first] = chunks;
  return first !== undefined && chunks.length === 1 ? first : Buffer.concat(chunks);
}

function parseQuestion(body: Buffer): Read<Question> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(utf8.decode(body));
  } catch {
    return invalid('the body is not valid JSON');
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    return invalid('the body must be a JSON object');
  }
  const fields = parsed as Record<string, unknown>;
  const { model, stream } = fields;
  if (typeof model !== 'string' || model === '' || model.length > limits.model_chars) {
    return invalid('`model` must be the name of an endpoint', 'model');
  }
  if (stream !== undefined && stream !== null && typeof stream !== 'boolean') {
    return invalid('`stream` must be true or false', 'stream');
  }
  return { ok: true, value: { fields, model, stream: stream === true } };
}

function invalid(problem: string, param: string | null = null): { ok: false; refusal: Refusal } {
  const message = `The request is not valid: ${problem}.`;
  return { ok: false, refusal: { status: 400, message, code: 'bad_request', param } };
}

function tooLarge(): { ok: false; refusal: Refusal } {
  const message = `The body is over ${limits.gateway_body_bytes / 1024 / 1024} MiB.`;
  return { ok: false, refusal: { status: 413, message, code: 'body_too_large' } };
}
