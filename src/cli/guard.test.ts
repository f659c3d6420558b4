import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { now_ms } from '../../test/lib/fake-records.ts';
import { runCli } from '../../test/lib/run-cli.ts';
import { buttonPath, readButton } from '../agent/guard/button.ts';

function createFolder() {
  const data_dir = mkdtempSync(join(tmpdir(), 'einsora-guard-'));
  return { data_dir, [Symbol.dispose]: () => rmSync(data_dir, { recursive: true }) };
}

const run = (data_dir: string, ...argv: string[]) => runCli(argv, { data_dir });

test('pause is kept for the agent, for its time, and resume takes it back', async () => {
  using folder = createFolder();
  const { data_dir } = folder;
  const path = buttonPath(data_dir);
  const paused = await run(data_dir, 'pause', '--for', '2h');
  assert.equal(paused.code, 0);
  assert.match(paused.stderr, /Nothing new starts on this machine for 2h 0m/);
  assert.match(paused.stderr, /Your own workloads go on/);
  const until = now_ms + 2 * 3600_000;
  assert.deepEqual(readButton(path, now_ms), { until, now: false, everyone: false });
  assert.equal(readButton(path, until), null, 'its time is over');
  const again = await run(data_dir, 'pause', '--now', '--all', '--json');
  assert.deepEqual(JSON.parse(again.stdout), {
    ...{ paused: true, until: null, now: true, everyone: true },
  });
  const resumed = await run(data_dir, 'resume');
  assert.match(resumed.stderr, /takes workloads again/);
  assert.equal(readButton(path, now_ms), null);
  assert.match((await run(data_dir, 'resume')).stderr, /was not paused/);
});

test('a button that cannot be read counts as pressed', () => {
  using folder = createFolder();
  mkdirSync(join(folder.data_dir, 'agent'));
  writeFileSync(buttonPath(folder.data_dir), '{"until":');
  assert.deepEqual(readButton(buttonPath(folder.data_dir), now_ms), {
    ...{ until: null, now: false, everyone: false },
  });
});

test('pause says where nothing ever ran, and makes nothing', async () => {
  using folder = createFolder();
  const missing = join(folder.data_dir, 'missing');
  const found = await runCli(['pause'], { data_dir: missing, cwd: folder.data_dir });
  assert.equal(found.code, 4);
  assert.match(found.stderr, /has not run on this machine/);
});

test('machine policy shows the defaults, checks a file, and says its line', async () => {
  using folder = createFolder();
  const { data_dir } = folder;
  const file = join(data_dir, 'mine.json');
  const shown = await run(data_dir, 'machine', 'policy', 'show');
  assert.match(shown.stderr, /no policy file/);
  assert.match(shown.stdout, /when active +little CPU/);
  writeFileSync(file, '{\n  "guests": {\n    "max_cpus": 2\n  }\n}\n');
  const wrong = await run(data_dir, 'machine', 'policy', 'check', 'mine.json');
  assert.equal(wrong.code, 1);
  assert.match(wrong.stderr, /line 3: there is no setting guests\.max_cpus/);
  writeFileSync(file, '{ "guests": { "max_cpu": 2, "hours": ["22:00-07:00"] } }');
  const right = await run(data_dir, 'machine', 'policy', 'check', 'mine.json');
  assert.equal(right.code, 0);
  assert.match(right.stdout, /hours +22:00-07:00/);
  const where = await run(data_dir, 'machine', 'policy', 'path');
  assert.equal(where.stdout.trim(), join(data_dir, 'agent', 'policy.json'));
  mkdirSync(join(data_dir, 'agent'));
  writeFileSync(where.stdout.trim(), 'guests: no');
  const bad = await run(data_dir, 'machine', 'policy', 'show', '--json');
  assert.equal(bad.code, 1);
  const { problem, policy } = JSON.parse(bad.stdout);
  assert.match(problem, /^line 1: no JSON/);
  assert.equal(policy.refuses.guests, false);
});
