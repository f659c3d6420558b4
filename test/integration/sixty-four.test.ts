/**
 * A crowd on a machine that has room for exactly one.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Workload } from '../../src/contract/workloads.ts';
import { writeKnownAnswerModel } from '../lib/known-answer.ts';
import { needs } from '../lib/parts.ts';
import { runsOf } from '../lib/processes.ts';
import { cleanUp, type Program, startProgram, temporaryFolder, until } from '../lib/program.ts';

const crowd = 64;

test(
  '64 launches at once where one fits: all are recorded, one runs, the others wait in a row',
  needs('llama', 'bwrap', 'cgroup'),
  async () => {
    const data_dir = temporaryFolder();
    const args = ['--offer-cpu', '1', '--offer-memory', '2GiB'];
    const program = await startProgram({ data_dir, args });
    try {
      const model = join(data_dir, 'known.gguf');
      writeKnownAnswerModel(model);
      const body = { kind: 'endpoint', model };
      const answers = await Promise.all(
        Array.from({ length: crowd }, () => program.api<Workload>('/v1/workloads', { body })),
      );
      assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([201]));
      assert.equal(new Set(answers.map((answer) => answer.body.name)).size, crowd, 'names differ');

      await until(
        async () => placed(await list(program)).some(({ state }) => state === 'running'),
        30_000,
        () => 'none runs',
      );
      const all = await list(program);
      assert.equal(all.length, crowd);
      const first = onlyOne(placed(all));
      checkQueue(all, crowd - 1);

      await program.api(`/v1/workloads/${first.id}/stop`, { method: 'POST' });
      await until(
        async () =>
          placed(await list(program)).some(
            ({ id, state }) => id !== first.id && state === 'running',
          ),
        15_000,
        () => 'the next one was not placed',
      );
      const after = await list(program);
      const second = onlyOne(placed(after));
      const next = all.find(({ queue_place }) => queue_place === 1);
      assert.equal(second.name, next?.name, 'the one at the front came next');
      checkQueue(after, crowd - 2);
      assert.equal(after.find(({ id }) => id === first.id)?.state, 'stopped');

      const removals = await Promise.all(
        after.map(({ id }) => program.api(`/v1/workloads/${id}`, { method: 'DELETE' })),
      );
      assert.deepEqual(new Set(removals.map(({ status }) => status)), new Set([202]));
      await until(
        async () => (await list(program)).length === 0,
        20_000,
        () => 'some are not deleted',
      );
      assert.deepEqual(runsOf(data_dir), []);
      const { body: machines } = await program.api<{ items: { held: { cpu_millis: number } }[] }>(
        '/v1/machines',
      );
      assert.equal(machines.items[0]?.held.cpu_millis, 0, 'nothing is held any more');
    } finally {
      await cleanUp(data_dir, program);
    }
  },
);

async function list(program: Program): Promise<Workload[]> {
  return (await program.api<{ items: Workload[] }>('/v1/workloads?limit=200')).body.items;
}

function placed(workloads: Workload[]): Workload[] {
  return workloads.filter(({ state }) => state === 'provisioning' || state === 'running');
}

function onlyOne(workloads: Workload[]): Workload {
  const [one] = workloads;
  assert.ok(one !== undefined && workloads.length === 1, `${workloads.length} are placed, not one`);
  return one;
}

function checkQueue(workloads: Workload[], count: number): void {
  const queued = workloads.filter(({ state }) => state === 'queued');
  const places = queued.map(({ queue_place }) => queue_place ?? 0).sort((a, b) => a - b);
  assert.deepEqual(
    places,
    Array.from({ length: count }, (_, index) => index + 1),
  );
  for (const { name, reason } of queued) {
    assert.ok(reason !== null && reason.message !== '', `${name} says why it waits`);
    assert.notEqual(reason.code, 'asked_by_user');
  }
}
