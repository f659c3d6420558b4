/**
 * HTTP as no client would send it: no crash, no failure of ours, and the next request is answered
 * as ever.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sendRaw } from '../lib/raw-http.ts';
import { fuzzRawHttp, startRawServer } from '../lib/raw-http-fuzz.ts';

test('whatever is sent, nothing crashes and nothing is a failure of ours', async () => {
  const answers = await fuzzRawHttp({ seed: 4, runs: 400 });
  assert.ok(answers > 100, `only ${answers} answers came`);
});

test('a request that is smuggled behind another is not answered for another host', async () => {
  const server = await startRawServer();
  const smuggled = 'GET /v1/me HTTP/1.1\r\nHost: evil\r\n\r\n';
  const both = [
    ...['POST /v1/plan HTTP/1.1', `Host: localhost:${server.port}`, 'Content-Length: 6'],
    ...['Transfer-Encoding: chunked', '', '0', '', smuggled],
  ].join('\r\n');
  const got = await sendRaw(server.port, { text: both, parts: [], ends: true });
  await server.close();
  assert.match(got, /^HTTP\/1\.1 400/, 'both lengths at once are refused');
  assert.doesNotMatch(got, /HTTP\/1\.1 200/);
});
