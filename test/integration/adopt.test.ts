/**
 * Coming back: the control plane ends and starts again, and its workloads never stopped; a machine
 * that was restarted, and everything on it did.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Workload, WorkloadEvent } from '../../src/contract/workloads.ts';
import { writeKnownAnswerModel } from '../lib/known-answer.ts';
import { needs } from '../lib/parts.ts';
import { enginesOf, keeperOf, killRun, runProcesses } from '../lib/processes.ts';
import { cleanUp, type Program, startProgram, temporaryFolder, until } from '../lib/program.ts';

const real = needs('llama', 'bwrap', 'cgroup');

test(
  'Ctrl-C says what goes on, it goes on, and the next up takes it over as it is',
  real,
  async () => {
    const data_dir = temporaryFolder();
    let program = await startProgram({ data_dir });
    try {
      const { id, sentence } = await launchKnown(program);
      const before = facts(data_dir, id);
      const { url } = program;
      assert.equal(await program.interrupt(), 0);
      assert.match(program.said(), /Still running: known\. Come back with: bin\/einsora up/);
      await assert.rejects(fetch(`${url}/healthz`), 'nothing is served any more');
      assert.deepEqual(facts(data_dir, id), before, 'the engine goes on');

      program = await startProgram({ data_dir });
      const shown = await show(program);
      assert.equal(shown.state, 'running');
      assert.equal(shown.placement?.run_epoch, 1);
      assert.equal(shown.restarts, 0);
      const said = await program.cli(['chat', 'known', 'Who?']);
      assert.equal(said.stdout, `${sentence}\n`, said.stderr);
      assert.deepEqual(facts(data_dir, id), before, 'and is the very same one');
      assert.deepEqual(
        (await timeline(program)).map(({ to_state }) => to_state),
        ['pending', 'provisioning', 'running'],
        'nothing happened to it',
      );
    } finally {
      await cleanUp(data_dir, program);
    }
  },
);

test('after a restart of the machine its workloads run anew, and say why', real, async () => {
  const data_dir = temporaryFolder();
  let program = await startProgram({ data_dir });
  try {
    const { id, sentence } = await launchKnown(program);
    const run = `${id}.0.1`;
    await program.kill();
    killRun(data_dir, run, ['keeper', 'sandbox', 'engine']);
    await until(
      () => runProcesses(data_dir).length === 0,
      10_000,
      () => 'the engine did not end',
    );
    // What the disk holds after a restart: files of another boot, and no word of an end.
    for (const path of [`agent/journal/${run}.json`, `runs/${run}/keeper.json`]) {
      const file = join(data_dir, path);
      const content = JSON.parse(readFileSync(file, 'utf8'));
      assert.equal(typeof content.boot_id, 'string');
      writeFileSync(file, JSON.stringify({ ...content, boot_id: 'the boot before' }));
    }

    program = await startProgram({ data_dir });
    await until(
      async () => (await show(program)).placement?.run_epoch === 2,
      30_000,
      () => 'there is no new run',
    );
    await untilRunning(program);
    const told = (await timeline(program)).find(({ code }) => code === 'machine_rebooted');
    assert.ok(told !== undefined, JSON.stringify(await timeline(program)));
    assert.match(told.message, /was restarted, which ended it/);
    assert.equal(enginesOf(data_dir, id).length, 1);
    const said = await program.cli(['chat', 'known', 'Who?']);
    assert.equal(said.stdout, `${sentence}\n`, said.stderr);
  } finally {
    await cleanUp(data_dir, program);
  }
});

async function launchKnown(program: Program): Promise<{ id: string; sentence: string }> {
  const model = join(program.data_dir, 'known.gguf');
  const { sentence } = writeKnownAnswerModel(model);
  const body = { kind: 'endpoint', name: 'known', model };
  const launched = await program.api<Workload>('/v1/workloads', { body });
  assert.equal(launched.status, 201);
  await untilRunning(program);
  return { id: launched.body.id, sentence };
}

async function untilRunning(program: Program): Promise<void> {
  await until(
    async () => (await show(program)).state === 'running',
    30_000,
    () => 'it does not run',
  );
}

/** Who keeps the first run, and which engine. */
function facts(data_dir: string, id: string) {
  const [keeper, engines] = [keeperOf(data_dir, `${id}.0.1`), enginesOf(data_dir, id)];
  assert.ok(keeper !== null && engines.length === 1);
  return { keeper, engines };
}

async function show(program: Program): Promise<Workload> {
  return (await program.api<Workload>('/v1/workloads/known')).body;
}

async function timeline(program: Program): Promise<WorkloadEvent[]> {
  const path = '/v1/workloads/known/events';
  return (await program.api<{ items: WorkloadEvent[] }>(path)).body.items;
}
