/**
 * The data folder's disk gets full under the running program, and is freed again.
 */
import assert from 'node:assert/strict';
import { rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Workload, WorkloadEvent } from '../../src/contract/workloads.ts';
import { exec } from '../../src/lib/exec.ts';
import type { Refusal } from '../lib/bad-day.ts';
import { writeKnownAnswerModel } from '../lib/known-answer.ts';
import { needs } from '../lib/parts.ts';
import { type Program, startProgram, temporaryFolder } from '../lib/program.ts';
import { checkIntegrity } from '../lib/store-check.ts';

const size = '24m';
/** No machine of a test has so much: what asks for it is recorded and waits. */
const too_big = 'cpu-8c-32g';

test(
  'a full disk: writes are refused as store_full, reads go on, and room makes it whole again',
  needs('tmpfs'),
  () =>
    onSmallDisk(async (data_dir, model) => {
      const program = await startProgram({ data_dir, until_ready: false });
      try {
        const before = await launchUntilFull(program, model, data_dir);
        const { body, status } = await launch(program, 'refused', model);
        assert.equal(status, 507, JSON.stringify(body));
        const { error } = body as unknown as { error: Refusal };
        assert.equal(error.code, 'store_full');
        assert.match(error.fix ?? '', new RegExp(`^df -h ${data_dir}`));
        await checkReads(program, before);

        rmSync(join(data_dir, 'ballast'));
        assert.equal((await launch(program, 'after', model)).status, 201);
        const ids = await checkReads(program, [...before, 'after']);
        const removal = await program.api(`/v1/workloads/${ids[0]}`, { method: 'DELETE' });
        assert.equal(removal.status, 202);
      } finally {
        await program.kill();
      }
      assert.equal(await checkIntegrity(data_dir), 'ok');
      const again = await startProgram({ data_dir, until_ready: false });
      try {
        assert.equal((await again.api('/v1/workloads/after')).status, 200);
        assert.equal((await again.api('/v1/workloads/refused')).status, 404);
      } finally {
        await again.kill();
      }
    }),
);

test(
  'killed while the disk is full: it starts, keeps what it said, and says what is wrong',
  needs('tmpfs'),
  () =>
    onSmallDisk(async (data_dir, model) => {
      const program = await startProgram({ data_dir, until_ready: false });
      let names: string[] = [];
      try {
        names = await launchUntilFull(program, model, data_dir);
      } finally {
        await program.kill();
      }
      const refused = await startProgram({ data_dir, until_ready: false }).then(
        async (started) => {
          await started.kill();
          return null;
        },
        (error: Error) => error.message,
      );
      if (refused !== null) assert.match(refused, /store_full[\s\S]*df -h/);
      rmSync(join(data_dir, 'ballast'));
      const again = await startProgram({ data_dir, until_ready: false });
      try {
        await checkReads(again, names);
      } finally {
        await again.kill();
      }
      assert.equal(await checkIntegrity(data_dir), 'ok');
    }),
);

/** A data folder on a disk of its own, and a model beside it. */
async function onSmallDisk(body: (data_dir: string, model: string) => Promise<void>) {
  const folder = temporaryFolder();
  const data_dir = temporaryFolder();
  const model = join(folder, 'known.gguf');
  writeKnownAnswerModel(model);
  const args = ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', data_dir];
  const mounted = await exec('mount', args, { timeout_ms: 5000 });
  assert.equal(mounted.code, 0, mounted.stderr);
  try {
    await body(data_dir, model);
  } finally {
    await exec('umount', ['-l', data_dir], { timeout_ms: 5000 });
    for (const path of [data_dir, folder]) rmSync(path, { recursive: true, force: true });
  }
}

/** Takes all but a little of the disk, then launches until that is gone. Names of what was taken. */
async function launchUntilFull(program: Program, model: string, data_dir: string) {
  assert.equal((await launch(program, 'first', model)).status, 201);
  const { bavail, bsize } = statfsSync(data_dir);
  writeFileSync(join(data_dir, 'ballast'), Buffer.alloc(bavail * bsize - 600 * 1024));
  const names = ['first'];
  for (let number = 1; number < 5000; number += 1) {
    const name = `w-${number}`;
    const { status, body } = await launch(program, name, model);
    if (status === 507) return names;
    assert.equal(status, 201, JSON.stringify(body));
    names.push(name);
  }
  throw new Error('the disk did not get full');
}

/** Every named workload is there with its first event, and nothing else. Ids in their order. */
async function checkReads(program: Program, names: string[]): Promise<string[]> {
  const items: Workload[] = [];
  let cursor: string | null = null;
  do {
    const query: string = cursor === null ? '' : `&cursor=${cursor}`;
    const page = await program.api<{ items: Workload[]; next_cursor: string | null }>(
      `/v1/workloads?limit=200${query}`,
    );
    assert.equal(page.status, 200);
    items.push(...page.body.items);
    cursor = page.body.next_cursor;
  } while (cursor !== null);
  assert.deepEqual(items.map(({ name }) => name).sort(), names.toSorted());
  const last = items.find(({ name }) => name === names.at(-1));
  const path = `/v1/workloads/${last?.id}/events`;
  const { body } = await program.api<{ items: WorkloadEvent[] }>(path);
  assert.equal(body.items[0]?.number, 1);
  return names.map((name) => items.find((item) => item.name === name)?.id ?? '');
}

function launch(program: Program, name: string, model: string) {
  return program.api<Workload>('/v1/workloads', {
    body: { kind: 'endpoint', name, model, gpu_class: too_big },
  });
}
