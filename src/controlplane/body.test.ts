/**
 * Bodies of API requests: whole, bounded, and not waited for without end.
 */
import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { createFakeClock, settle } from '../../test/lib/fake-clock.ts';
import { limits } from '../contract/limits.ts';
import { hasBody, readBody } from './body.ts';

function given(headers: Record<string, string> = { 'transfer-encoding': 'chunked' }) {
  const clock = createFakeClock();
  const stream = Object.assign(new PassThrough(), { headers });
  const request = stream as unknown as IncomingMessage & { rawBody?: Buffer };
  const ends: string[] = [];
  readBody(clock, request, (end) => ends.push(end));
  return { clock, stream, request, ends };
}

test('a body that comes in pieces is whole in the end', async () => {
  const { clock, stream, request, ends } = given();
  stream.write('{"a":');
  stream.end('1}');
  await settle();
  assert.deepEqual(ends, ['whole']);
  assert.equal(request.rawBody?.toString(), '{"a":1}');
  assert.equal(clock.waiting(), 0);
});

test('one that is said to be too large is not read, one that turns out so is cut', async () => {
  const said = given({ 'content-length': String(limits.api_body_bytes + 1) });
  assert.deepEqual(said.ends, ['too_large']);
  const { stream, request, ends } = given();
  for (let sent = 0; sent <= limits.api_body_bytes; sent += 10_000) {
    stream.write(Buffer.alloc(10_000));
  }
  await settle();
  assert.deepEqual(ends, ['too_large']);
  assert.equal(request.rawBody, undefined);
});

test('one that stops arriving is given up, and told once', async () => {
  const { clock, stream, ends } = given();
  stream.write('{');
  await clock.advance(limits.request_body_ms - 1);
  assert.deepEqual(ends, []);
  await clock.advance(1);
  assert.equal(stream.destroyed, true);
  assert.deepEqual(ends, ['gone']);
});

test('what has no body is not waited for', () => {
  const of = (headers: Record<string, string>) =>
    hasBody({ headers } as unknown as IncomingMessage);
  assert.equal(of({}), false);
  assert.equal(of({ 'content-length': '0' }), false);
  assert.equal(of({ 'content-length': '2' }), true);
  assert.equal(of({ 'transfer-encoding': 'chunked' }), true);
});
