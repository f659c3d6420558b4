/**
 * HTTP as no client would send it, against the real listener with the real gateway behind it: no
 * crash, no failure of ours, and the next request is answered as ever.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { type Listening, listen } from '../../src/controlplane/server.ts';
import { createTargets } from '../../src/controlplane/targets.ts';
import { createGateway } from '../../src/gateway/gateway.ts';
import type { EinsoraStore } from '../../src/store/transactions.ts';
import { rawRequest, sendRaw } from '../lib/raw-http.ts';
import { createRig, keepingLog, type LogLine, type Rig } from '../lib/rig.ts';

const given = {} as { rig: Rig; listening: Listening };
const lines: LogLine[] = [];
const rejections: unknown[] = [];
const onRejection = (error: unknown) => void rejections.push(error);

before(async () => {
  process.on('unhandledRejection', onRejection);
  const rig = await createRig();
  const log = keepingLog(lines);
  const { clock, random, api } = rig;
  const gateway = createGateway({
    ...createTargets(rig.store as unknown as EinsoraStore),
    dial: () => Promise.reject(new Error('nothing runs here')),
    ...{ clock, log, region: 'local' },
  });
  const listening = await listen(0, { api, gateway, clock, random, log });
  Object.assign(given, { rig, listening });
});
after(async () => {
  process.off('unhandledRejection', onRejection);
  await given.listening.close();
  await given.rig.close();
});

test('whatever is sent, nothing crashes and nothing is a failure of ours', async () => {
  const { port } = given.listening;
  let answers = 0;
  await fc.assert(
    fc.asyncProperty(rawRequest, async (request) => {
      lines.length = 0;
      const got = await sendRaw(port, request);
      const statuses = [...got.matchAll(/^HTTP\/1\.1 (\d{3})/gm)].map((match) => Number(match[1]));
      answers += statuses.length;
      const failed = JSON.stringify(lines.filter(({ level }) => level === 'error'));
      assert.ok(
        statuses.every((status) => status < 500),
        `${got.slice(0, 500)} ${failed}`,
      );
      assert.equal(failed, '[]');
      assert.deepEqual(rejections, []);
    }),
    { seed: 4, numRuns: Number(process.env.EINSORA_FUZZ_RUNS ?? 400) },
  );
  assert.ok(answers > 100, `only ${answers} answers came`);
  assert.equal((await fetch(`http://localhost:${port}/healthz`)).status, 200);
});

test('a request that is smuggled behind another is not answered for another host', async () => {
  const { port } = given.listening;
  const smuggled = 'GET /v1/me HTTP/1.1\r\nHost: evil\r\n\r\n';
  const both = [
    ...['POST /v1/plan HTTP/1.1', `Host: localhost:${port}`, 'Content-Length: 6'],
    ...['Transfer-Encoding: chunked', '', '0', '', smuggled],
  ].join('\r\n');
  const got = await sendRaw(port, { text: both, parts: [], ends: true });
  assert.match(got, /^HTTP\/1\.1 400/, 'both lengths at once are refused');
  assert.doesNotMatch(got, /HTTP\/1\.1 200/);
});
