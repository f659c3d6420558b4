/**
 * The body of an API request, read whole before the API sees it: it is small and bounded, and one
 * buffer costs a fraction of a web stream.
 *
 * Invariants: no more than the limit is ever kept; a body that stops arriving ends the connection.
 */
import type { IncomingMessage } from 'node:http';
import { limits } from '../contract/limits.ts';
import type { Clock } from '../lib/clock.ts';

export type BodyEnd = 'whole' | 'too_large' | 'gone';

/** The listener of @hono/node-server takes a body from here. */
type WithBody = IncomingMessage & { rawBody?: Buffer };

/** True where a body may follow. */
export function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0';
}

export function readBody(
  clock: Clock,
  request: WithBody,
  done: (end: BodyEnd, body?: Buffer) => void,
): void {
  if (Number(request.headers['content-length'] ?? 0) > limits.api_body_bytes) {
    done('too_large');
    return;
  }
  const chunks: Buffer[] = [];
  let bytes = 0;
  const cancel = clock.after(limits.request_body_ms, () => request.destroy());
  const finish = (end: BodyEnd) => {
    cancel();
    request.off('data', onData).off('end', onEnd).off('close', onClose);
    done(end, request.rawBody);
  };
  function onData(chunk: Buffer): void {
    bytes += chunk.length;
    if (bytes > limits.api_body_bytes) finish('too_large');
    else chunks.push(chunk);
  }
  function onEnd(): void {
    request.rawBody = chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks);
    finish('whole');
  }
  const onClose = () => finish('gone');
  request.on('data', onData).on('end', onEnd).on('close', onClose);
}
