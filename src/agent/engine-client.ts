/**
 * Small HTTP calls to an engine, over a stream that the driver opened.
 *
 * Invariants: bounded in time and size; a failed call is a value; the stream is closed with the
 * call.
 */
import { request } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Clock } from '../lib/clock.ts';

export type EngineReply = { ok: true; status: number; body: string } | { ok: false; why: string };

export type EngineCall = {
  method: 'GET' | 'POST';
  path: string;
  headers?: Record<string, string>;
  body?: unknown;
  timeout_ms: number;
};

/** Pages of metrics are the largest. */
const body_limit_bytes = 512 * 1024;

export async function callEngine(
  clock: Clock,
  dial: () => Promise<Duplex>,
  call: EngineCall,
  signal: AbortSignal,
): Promise<EngineReply> {
  let stream: Duplex;
  try {
    stream = await dial();
  } catch (error) {
    return { ok: false, why: error instanceof Error ? error.message : String(error) };
  }
  return new Promise((resolve) => {
    const finish = (reply: EngineReply) => {
      cancel();
      signal.removeEventListener('abort', onAbort);
      stream.destroy();
      resolve(reply);
    };
    const onAbort = () => finish({ ok: false, why: 'stopped' });
    const cancel = clock.after(call.timeout_ms, () =>
      finish({ ok: false, why: `no answer within ${call.timeout_ms} ms` }),
    );
    if (signal.aborted) return onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    const body = call.body === undefined ? '' : JSON.stringify(call.body);
    const asked = request({
      method: call.method,
      path: call.path,
      createConnection: () => stream,
      headers: {
        ...call.headers,
        host: 'engine',
        connection: 'close',
        ...(body === '' ? {} : { 'content-type': 'application/json' }),
        'content-length': Buffer.byteLength(body),
      },
    });
    asked.on('error', (error) => finish({ ok: false, why: error.message }));
    asked.on('response', (response) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes <= body_limit_bytes) chunks.push(chunk);
      });
      response.on('error', (error) => finish({ ok: false, why: error.message }));
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString('utf8');
        finish({ ok: true, status: response.statusCode ?? 0, body: text });
      });
    });
    asked.end(body);
  });
}
