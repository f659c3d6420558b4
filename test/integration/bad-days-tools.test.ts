/**
 * Tools that are missing, broken or forged: nothing runs without a sandbox, nothing of a wrong
 * checksum is kept, and each says what helps.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Machine } from '../../src/contract/machines.ts';
import { exec } from '../../src/lib/exec.ts';
import { findProgram } from '../../src/lib/which.ts';
import { launch, onlyFrom, pythonTool, show, toolFolder } from '../lib/bad-day.ts';
import { writeKnownAnswerModel } from '../lib/known-answer.ts';
import { needs } from '../lib/parts.ts';
import { runProcesses, runsOf } from '../lib/processes.ts';
import { cleanUp, type Program, startProgram, temporaryFolder } from '../lib/program.ts';
import { makeWheel } from '../lib/wheel-maker.ts';

const bwrap = { link: findProgram('bwrap', process.env.PATH) ?? '/usr/bin/bwrap' };

type Tools = Parameters<typeof toolFolder>[1];
type Place = { program: Program; model: string; index: string; cache: string; tools: string };

/** Only these tools, no engine of containers, an empty cache, and only `index` to fetch from. */
async function withTools(
  tools: Tools,
  work: (place: Place) => Promise<void>,
  prepare: (place: Omit<Place, 'program'>) => Promise<void> = async () => {},
): Promise<void> {
  const data_dir = temporaryFolder();
  const [index, cache] = [join(data_dir, 'index'), join(data_dir, 'cache-of-test')];
  const model = join(data_dir, 'known.gguf');
  writeKnownAnswerModel(model);
  const path = toolFolder(join(data_dir, 'bin'), tools);
  const docker = { DOCKER_HOST: `unix://${join(data_dir, 'no-docker.sock')}` };
  const env = { ...onlyFrom(index), ...docker, PATH: path, EINSORA_CACHE_DIR: cache };
  const place = { model, index, cache, tools: path };
  await prepare(place);
  const program = await startProgram({ data_dir, env });
  try {
    await work({ ...place, program });
    assert.deepEqual(runProcesses(data_dir), [], 'nothing runs');
  } finally {
    await cleanUp(data_dir, program);
  }
}

/** Launches where no sandbox can be had: it waits, says why, and nothing of it ever ran. */
async function assertNeverRuns({ program, model }: Place, why: RegExp): Promise<void> {
  const { code, document } = await launch(program, model, '--timeout', '1s');
  assert.equal(code, 1);
  assert.equal(document.outcome, 'timed_out');
  const [refusal] = document.plan.machines_not_chosen;
  assert.equal(refusal?.code, 'sandbox_missing');
  assert.match(refusal?.message ?? '', why);
  assert.equal(refusal?.fix, 'apt-get install bubblewrap');
  const workload = await show(program, document.workload.name);
  assert.equal(workload.state, 'queued');
  assert.equal(workload.reason?.code, 'sandbox_missing');
  assert.equal(workload.placement, null);
  assert.deepEqual(runsOf(program.data_dir), []);
}

test(
  'without bubblewrap nothing runs, and the machine says how to install it',
  needs('python'),
  () =>
    withTools({ python3: pythonTool() }, async (place) => {
      await assertNeverRuns(place, /bubblewrap is not installed/);
      const { body } = await place.program.api<{ items: Machine[] }>('/v1/machines');
      const driver = body.items[0]?.inventory?.drivers.find(
        (entry) => entry.driver === 'linux-native',
      );
      assert.equal(driver?.ready, false);
      const missing = driver?.findings.find(({ status }) => status === 'missing');
      assert.equal(missing?.fix, 'apt-get install bubblewrap');
      const doctor = await place.program.cli(['doctor', '--json']);
      assert.match(doctor.stdout, /apt-get install bubblewrap/);
    }),
);

test('a bubblewrap that can make no namespaces counts as none', needs('python'), () => {
  const refusing = 'test "$1" = --version && echo "bubblewrap 0.11.0" && exit 0\n';
  const said = 'echo "bwrap: No permissions to create new namespace" >&2; exit 1';
  return withTools({ bwrap: `${refusing}${said}`, python3: pythonTool() }, (place) =>
    assertNeverRuns(place, /does not work here .*No permissions to create new namespace/),
  );
});

test('without Python and llama-server a launch fails as python_missing', needs('bwrap'), () =>
  withTools({ bwrap }, async ({ program, model }) => {
    const { code, document } = await launch(program, model);
    assert.equal(code, 6);
    assert.equal(document.error?.code, 'python_missing');
    assert.equal(document.error?.fix, 'apt-get install python3-venv');
    assert.equal((await show(program, document.workload.name)).state, 'failed');
    assert.deepEqual(runsOf(program.data_dir), []);
  }),
);

test('a wheel with another checksum is thrown away', needs('bwrap', 'python'), () => {
  const forge = async ({ index }: { index: string }) => {
    makeWheel(index, 'xllamacpp', { 'xllamacpp.py': 'forged' });
    const forged = 'xllamacpp-2026.10.11549-py3-none-any.whl';
    renameSync(join(index, 'xllamacpp-1.0-py3-none-any.whl'), join(index, forged));
  };
  return withTools(
    { bwrap, python3: pythonTool() },
    async ({ program, model, cache }) => {
      const { code, document } = await launch(program, model);
      assert.equal(code, 6);
      assert.equal(document.error?.code, 'download_corrupt');
      assert.match(document.error?.message ?? '', /^xllamacpp .* another checksum/);
      assert.match(document.error?.fix ?? '', /bin\/einsora start known/);
      assert.deepEqual(readdirSync(join(cache, 'tools')).filter(isContent), []);
      assert.deepEqual(runsOf(program.data_dir), []);
    },
    forge,
  );
});

test(
  'a disk that gets full in mid-install fails as disk_full, and leaves nothing',
  needs('bwrap', 'python', 'tmpfs'),
  () => {
    // Room enough at the check before the download; then something else takes it all.
    const fill = 'case "$*" in *"pip install"*) dd if=/dev/zero of="$0.full/fill" bs=1M;; esac';
    const mountIt = async ({ cache, tools }: { cache: string; tools: string }) => {
      for (const folder of [cache, join(tools, 'python3.full')]) {
        const made = await exec('mkdir', ['-p', folder], { timeout_ms: 5000 });
        assert.equal(made.code, 0, made.stderr);
      }
      const args = ['-t', 'tmpfs', '-o', 'size=200m', 'tmpfs', cache];
      assert.equal((await exec('mount', args, { timeout_ms: 5000 })).code, 0);
      const shown = ['--bind', cache, join(tools, 'python3.full')];
      assert.equal((await exec('mount', shown, { timeout_ms: 5000 })).code, 0);
    };
    const dd = { link: findProgram('dd', process.env.PATH) ?? '/bin/dd' };
    return withTools(
      { bwrap, dd, python3: pythonTool(fill) },
      async ({ program, model, cache, tools, index }) => {
        try {
          makeWheel(index, 'xllamacpp', { 'xllamacpp.py': 'x'.repeat(2 ** 20) });
          const name = 'xllamacpp-2026.10.11549-py3-none-any.whl';
          renameSync(join(index, 'xllamacpp-1.0-py3-none-any.whl'), join(index, name));
          const { code, document } = await launch(program, model);
          assert.equal(code, 6);
          assert.equal(document.error?.code, 'disk_full', JSON.stringify(document.error));
          assert.match(document.error?.message ?? '', /are needed on the disk of .*tools/);
          assert.deepEqual(readdirSync(join(cache, 'tools')).filter(isContent), []);
          assert.ok(existsSync(join(cache, 'fill')));
          assert.deepEqual(runsOf(program.data_dir), []);
          rmSync(join(cache, 'fill'));
        } finally {
          for (const folder of [join(tools, 'python3.full'), cache]) {
            await exec('umount', ['-l', folder], { timeout_ms: 5000 });
          }
        }
      },
      mountIt,
    );
  },
);

/** Locks are files beginning with a dot that may stay for a moment; content may not. */
function isContent(name: string): boolean {
  return !name.endsWith('.lock');
}
