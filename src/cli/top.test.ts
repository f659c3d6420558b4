/**
 * What workloads use, once and on a terminal; when they are stopped for being idle.
 */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { type FakeApi, openFakeApi } from '../../test/lib/fake-api.ts';
import { now_ms, workload } from '../../test/lib/fake-records.ts';
import { type CliOptions, runCli } from '../../test/lib/run-cli.ts';
import type { WorkloadUse } from '../contract/stats.ts';

let api: FakeApi;
beforeEach(async () => {
  api = await openFakeApi();
});
afterEach(() => api.close());

const gib = 2 ** 30;
const use: WorkloadUse = {
  ...{ at: now_ms - 4000, cpu_millis: 1870, memory_bytes: 1.5 * gib, disk_bytes: 734e6 },
  ...{ gpu_percent: null, gpu_memory_bytes: null, used_at: now_ms - 240_000 },
  ...{ idle_left_ms: null, busy_with: null },
};

function add(...changes: Parameters<typeof workload>[0][]) {
  for (const change of changes) {
    const one = workload(change);
    api.workloads.set(one.id, one);
  }
}

const run = (argv: string[], options: Partial<CliOptions> = {}) =>
  runCli(argv, { data_dir: api.data_dir, ...options });

test('top shows figures, dashes for what nobody measured, and running ones first', async () => {
  const idle_policy = { after_ms: 7_200_000 };
  add(
    { id: 'w1', name: 'parked', state: 'stopped', park_cause: 'idle', placement: null },
    { id: 'w2', name: 'zeta', use: { ...use, busy_with: 'cpu', used_at: now_ms - 3000 } },
    { id: 'w3', name: 'lab', use: { ...use, idle_left_ms: 6_720_000, cpu_millis: 4 }, idle_policy },
    {
      ...{ id: 'w4', name: 'blind', idle_policy },
      use: { ...use, at: null, cpu_millis: null, memory_bytes: null, disk_bytes: null },
    },
    { id: 'w5', name: 'gpus', use: { ...use, gpu_percent: 97, gpu_memory_bytes: 40 * gib } },
  );
  const { stdout, code } = await run(['top']);
  assert.equal(code, 0);
  const [heading, ...rows] = stdout.trimEnd().split('\n');
  assert.match(heading ?? '', /^NAME +KIND +STATE +CPU +MEMORY +DISK +GPU +LAST USE +IDLE STOP$/);
  assert.deepEqual(
    rows.map((row) => row.split(/\s+/)[0]),
    ['blind', 'gpus', 'lab', 'zeta', 'parked'],
  );
  assert.match(rows[0] ?? '', /running +- +- +- +- +4 min ago +-$/);
  assert.match(rows[1] ?? '', / 97%, 40 GiB +4 min ago +-$/);
  assert.match(
    rows[2] ?? '',
    / 0\.4% +1\.5 GiB of 2 GiB \(75%\) +734 MB +- +4 min ago +in 1h 52m$/,
  );
  assert.match(rows[3] ?? '', / 187% .* now +-$/);
  assert.match(rows[4] ?? '', /stopped \(idle\) +- +- +- +- +- +-$/);
  const json = await run(['top', '--json']);
  assert.equal(JSON.parse(json.stdout).items.length, 5);
});

test('top stays on a terminal, follows, and leaves it as it was', async () => {
  add({ id: 'w1', name: 'chat', use });
  let frames = 0;
  const { stdout, code } = await run(['top'], {
    tty: true,
    onOutput(all, type) {
      const seen = all.split('\u001b[?2026l').length - 1;
      if (seen === frames) return;
      frames = seen;
      if (frames === 2) add({ id: 'w1', name: 'chat', use: { ...use, cpu_millis: 420 } });
      if (frames === 5) type('q');
    },
  });
  assert.equal(code, 0);
  assert.ok(stdout.startsWith('\u001b[?1049h\u001b[?25l'));
  assert.ok(stdout.endsWith('\u001b[?25h\u001b[?1049l'));
  assert.match(stdout, /187%/);
  assert.match(stdout, /42%/);
  assert.ok(!stdout.includes('\u001b[2J'), 'the screen is overwritten, not cleared');
});

test('top says that the control plane went away, and goes on with what it saw last', async () => {
  add({ id: 'w1', name: 'chat', use });
  let frames = 0;
  const { stdout, code } = await run(['top'], {
    tty: true,
    onOutput(all, _, interrupt) {
      const seen = all.split('\u001b[?2026l').length - 1;
      if (seen === frames) return;
      frames = seen;
      const message = 'The store cannot be written.';
      const failure = { status: 503, code: 'store_failing', message, fix: null };
      if (frames === 1) api.failures.set('GET /v1/workloads', failure);
      if (frames === 4) interrupt();
    },
  });
  assert.equal(code, 0);
  const last = stdout.split('\u001b[?2026h').find((frame) => frame.includes('cannot be written'));
  assert.match(last ?? '', /chat +endpoint/);
  assert.ok(stdout.endsWith('\u001b[?1049l'));
});

test('top prints once where it is told to, and says where there is nothing', async () => {
  const { stdout, stderr } = await run(['top', '--once'], { tty: true });
  assert.deepEqual([stdout, stderr], ['', 'No workloads.\n']);
});

test('a screen that is too small shows what fits, and how many do not', async () => {
  add(...Array.from({ length: 40 }, (_, at) => ({ id: `w${at}`, name: `chat-${at}`, use })));
  const { stdout } = await run(['top'], {
    tty: true,
    columns: 40,
    onOutput: (all, type) => void (all.includes('?2026l') && type('q')),
  });
  const frame = stdout.split('\u001b[?2026h')[1] ?? '';
  const lines = frame.split('\r\n');
  assert.equal(lines.length, 24);
  assert.match(lines.at(-1) ?? '', /… and 20 more/);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is taken out
  const plain = lines.map((line) => line.replaceAll(/\u001b\[[?\d]*[A-Za-z]/g, ''));
  assert.ok(plain.every((line) => [...line].length <= 40));
});

test('show says what a workload uses', async () => {
  add({
    id: 'w1',
    name: 'lab',
    use: { ...use, idle_left_ms: 60_000 },
    idle_policy: { after_ms: 7_200_000 },
  });
  const { stdout } = await run(['show', 'lab']);
  assert.match(
    stdout,
    /^uses +187% of 100% CPU, 1\.5 GiB of 2 GiB \(75%\) of memory, 734 MB on disk$/m,
  );
  assert.match(stdout, /^last use +4 min ago$/m);
  assert.match(stdout, /^idle stop +after 2h 0m of nothing: in 1m 0s$/m);
  const { stdout: listed } = await run(['ls']);
  assert.match(listed, /idle stop in 1m 0s$/m);
});

test('a time that is none, or too short, is a usage error', async () => {
  for (const time of ['soon', '5s', '-1', '59']) {
    const { code, stderr } = await run(['idle', 'lab', time]);
    assert.equal(code, 2, time);
    assert.match(stderr, /Give /);
  }
  assert.equal(api.calls.length, 0);
});
