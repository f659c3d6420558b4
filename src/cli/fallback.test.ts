/**
 * Fallbacks and room to make, as the command line asks for them and says them.
 */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { type FakeApi, openFakeApi } from '../../test/lib/fake-api.ts';
import { placed, plan, workload } from '../../test/lib/fake-records.ts';
import { runCli } from '../../test/lib/run-cli.ts';
import { roomMadeText } from './fallback.ts';
import { classText, fallbackText, roomText, takenText } from './fallback-view.ts';
import { differenceOf } from './launch.ts';
import { fallbackSteps, launchRequest } from './launch-request.ts';
import { planLines } from './plan-view.ts';

let api: FakeApi;
beforeEach(async () => {
  api = await openFakeApi();
});
afterEach(() => api.close());

const rule = { fallback: ['class:l40s-48gb', 'cpu'], fallback_after: 300_000 };
const taken = {
  ...{ step: 2, of: 2, to: 'cpu', asked: 'h100-80gb', placed: 'cpu-1c-2g', waited_ms: 300_000 },
  ...{ accelerator: 'cpu', gpu_count: 0, cpu_millis: 1000, memory_bytes: 2 ** 31, model: 'm' },
};
const stands_in = workload({ ...rule, fallback_taken: taken });

test('a launch sends the steps in order, and a file of a model by its absolute path', () => {
  const options = { fallback: ['class:x', 'model:./small.gguf'], fallbackAfter: 0, return: true };
  const request = launchRequest('/home/ada', 'endpoint', { model: 'smollm2-135m' }, options);
  assert.deepEqual(request.fallback, ['class:x', 'model:/home/ada/small.gguf']);
  assert.deepEqual([request.fallback_after, request.fallback_return], [0, true]);
  assert.deepEqual(fallbackSteps('/', ['model:hf://a/b', 'cpu']), ['model:hf://a/b', 'cpu']);
  const plain = launchRequest('/', 'endpoint', { model: 'smollm2-135m' }, { machine: 'desk' });
  assert.equal(plain.machine, 'desk');
  assert.ok(!('fallback' in plain) && !('fallback_after' in plain));
});

test('what makes no sense without a fallback is a usage error that names the option', async () => {
  for (const words of [['--fallback-after', '5m'], ['--return']]) {
    const said = await runCli(['launch', 'endpoint', 'smollm2-135m', ...words], api);
    assert.equal(said.code, 2);
    assert.match(said.stderr, new RegExp(`${words[0]} needs a --fallback`));
  }
  for (const words of [['set'], ['on'], ['off', 'cpu']]) {
    const said = await runCli(['fallback', 'chat', ...words], api);
    assert.equal(said.code, 2, words.join(' '));
  }
});

test('what may stand in, and what does, is said in words', () => {
  const back = { ...rule, fallback_return: true };
  assert.equal(
    fallbackText(back),
    'class:l40s-48gb, then cpu: after 5m 0s of waiting, and back once what it asked is free',
  );
  assert.equal(fallbackText({ ...rule, fallback: [], fallback_return: false }), null);
  assert.equal(
    takenText(stands_in),
    'asked h100-80gb, waited 5m 0s, placed by fallback 2 of 2 (cpu)',
  );
  assert.equal(classText(stands_in), 'cpu-1c-2g (fallback)');
  assert.equal(classText(workload()), 'cpu-1c-2g');
  assert.equal(roomText([{ name: 'chat', idle_ms: 720_000 }]), 'chat (idle 12m 0s)');
  assert.equal(roomText([]), null);
  assert.match(
    roomMadeText({ stopped: [{ id: 'w', name: 'chat' }] }, 'big'),
    /big: chat\. Whoever/,
  );
  assert.match(roomMadeText({ stopped: [] }, 'big'), /would not make room for big/);
});

test('a launch that ended on a fallback says so, planned or not', () => {
  const chosen = placed();
  const said = /^Not as asked: asked h100-80gb/;
  assert.match(differenceOf({ ...plan, chosen: null }, stands_in) ?? '', said);
  assert.match(differenceOf({ ...plan, chosen }, stands_in) ?? '', said);
});

test('the plan says where each step would lead, and whose room could be made', () => {
  const reason = { code: 'x', message: 'All are busy.', fix: null };
  const lines = planLines({
    ...{ ...plan, chosen: null, reason, make_room: [{ name: 'chat', idle_ms: 400_000 }] },
    asked: { ...plan.asked, ...rule },
    fallbacks: [
      { step: 'class:l40s-48gb', chosen: null, reason },
      { step: 'cpu', chosen: placed(), reason: null },
    ],
  });
  const at = lines.indexOf('After 5m 0s of waiting it falls back to the first of:');
  assert.deepEqual(lines.slice(at + 1, at + 4), [
    '  class:l40s-48gb  All are busy.',
    '  cpu              would be on box1 as cpu-1c-2g',
    'With --make-room it would have stopped: chat (idle 6m 40s)',
  ]);
});
