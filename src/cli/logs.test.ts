import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { type FakeApi, openFakeApi } from '../../test/lib/fake-api.ts';
import { workload } from '../../test/lib/fake-records.ts';
import { runCli } from '../../test/lib/run-cli.ts';

let api: FakeApi;
beforeEach(async () => {
  api = await openFakeApi();
  api.workloads.set('w1', workload());
});
afterEach(() => api.close());

const lines = (from: number, to: number) => {
  let text = '';
  for (let number = from; number <= to; number += 1) text += `line ${number}\n`;
  return text;
};

test('logs prints all of it, in chunks of any size, without control characters', async () => {
  api.logs = { text: `${lines(1, 20)}\u001b[31mred\u001b[0m\n`, run_epoch: 1, end: false };
  const { code, stdout } = await runCli(['logs', 'smollm2-135m'], api);
  assert.equal(code, 0);
  assert.equal(stdout, `${lines(1, 20)}red\n`);
});

test('--tail gives the last lines, and widens its window until it has them', async () => {
  api.logs = { text: `${lines(1, 50)}${'x'.repeat(9000)}\nlast\n`, run_epoch: 1, end: false };
  const tail = async (count: number) =>
    (await runCli(['logs', 'w1', '--tail', `${count}`], api)).stdout;
  assert.equal(await tail(1), 'last\n');
  assert.equal(await tail(3), `line 50\n${'x'.repeat(9000)}\nlast\n`);
  assert.equal(await tail(0), '');
  assert.equal(await tail(1000), api.logs.text);
});

test('-f goes on with the next run, and ends when no further one comes', async () => {
  api.logs = { text: 'one\n', run_epoch: 1, end: false };
  let sleeps = 0;
  const { code, stdout, stderr } = await runCli(['logs', 'w1', '-f'], {
    ...api,
    onSleep: () => {
      sleeps += 1;
      if (sleeps === 1) api.logs.text += 'two\n';
      if (sleeps === 2) api.logs = { text: 'again\n', run_epoch: 2, end: false };
      if (sleeps === 3) {
        api.logs.end = true;
        api.script = [{ state: 'failed' }];
      }
    },
  });
  assert.equal(code, 0);
  assert.equal(stdout, 'one\ntwo\nagain\n');
  assert.equal(stderr, '· run 2 begins\n');
});

test('-f ends on Ctrl-C with 130', async () => {
  const { code } = await runCli(['logs', 'w1', '-f'], {
    ...api,
    onSleep: (interrupt) => interrupt(),
  });
  assert.equal(code, 130);
});

test('logs --json is one document', async () => {
  api.logs = { text: 'one\n', run_epoch: 3, end: true };
  const { stdout } = await runCli(['logs', 'w1', '--json'], api);
  assert.deepEqual(JSON.parse(stdout), { workload: 'w1', run_epoch: 3, end: true, text: 'one\n' });
});
