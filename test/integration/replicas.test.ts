/**
 * Two replicas of a real engine on one machine: both answer, one is killed, the other goes on.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { chatWith, events, launch, show } from '../lib/bad-day.ts';
import { writeKnownAnswerModel } from '../lib/known-answer.ts';
import { needs } from '../lib/parts.ts';
import { killRun, runProcesses } from '../lib/processes.ts';
import { cleanUp, type Program, startProgram, temporaryFolder, until } from '../lib/program.ts';

/** How many of its replicas answer, once that is so. */
function untilReady(program: Program, id: string, count: number): Promise<void> {
  return until(
    async () => (await show(program, id)).replicas_ready === count,
    60_000,
    () => `${count} replicas are not ready`,
  );
}

test(
  'of two replicas one is killed: the other answers meanwhile, and it comes back',
  needs('llama', 'bwrap', 'cgroup'),
  async () => {
    const data_dir = temporaryFolder();
    const program = await startProgram({ data_dir, args: ['--offer-cpu', '2'] });
    try {
      const path = join(data_dir, 'known.gguf');
      const { sentence } = writeKnownAnswerModel(path);
      const { code, document } = await launch(program, path, '--replicas', '2');
      assert.equal(code, 0, JSON.stringify(document.error));
      const { id, name: model } = document.workload;
      await untilReady(program, id, 2);
      const asked = { program, key: document.key ?? '', model };

      const all = await Promise.all(Array.from({ length: 12 }, () => chatWith(asked)));
      assert.deepEqual(new Set(all.map(({ said }) => said)), new Set([sentence]));

      const before = (await show(program, id)).replica_states;
      assert.deepEqual(
        before.map(({ replica, state }) => [replica, state]),
        [
          [0, 'ready'],
          [1, 'ready'],
        ],
      );
      const engines = runProcesses(data_dir).filter(({ part }) => part === 'engine');
      assert.equal(new Set(engines.map(({ run }) => run)).size, 2, 'a process each');

      killRun(data_dir, `${id}.1.${before[1]?.run_epoch}`, ['engine']);
      // Nobody was told yet: whoever is sent to the dead one is answered by the other.
      for (let count = 0; count < 6; count += 1) {
        assert.deepEqual(await chatWith(asked), { status: 200, said: sentence });
      }
      await until(
        async () => (await show(program, id)).replicas_ready < 2,
        10_000,
        () => 'nobody noticed',
      );
      // The other one goes on, and the workload with it.
      for (let count = 0; count < 8; count += 1) {
        assert.deepEqual(await chatWith(asked), { status: 200, said: sentence });
        assert.equal((await show(program, id)).state, 'running');
      }
      await untilReady(program, id, 2);
      const after = await show(program, id);
      assert.equal(after.replica_states[0]?.run_epoch, before[0]?.run_epoch, 'it was left alone');
      assert.equal(after.replica_states[1]?.restarts, 1);
      assert.deepEqual(await chatWith(asked), { status: 200, said: sentence });
      const lost = (await events(program, id)).find((event) => event.code === 'replica_lost');
      assert.match(lost?.message ?? '', /^Replica 1 ended and is to run again: .*SIGKILL/);

      const printed = await program.cli(['logs', id, '--replica', '1', '--json']);
      assert.equal(JSON.parse(printed.stdout).run_epoch, after.replica_states[1]?.run_epoch);
      const scaled = await program.cli(['endpoint', 'scale', id, '1']);
      assert.equal(scaled.code, 0, scaled.stderr);
      await until(
        async () => new Set(runProcesses(data_dir).map(({ run }) => run)).size === 1,
        20_000,
        () => 'the second one is still there',
      );
      assert.deepEqual(await chatWith(asked), { status: 200, said: sentence });
    } finally {
      await cleanUp(data_dir, program);
    }
  },
);
