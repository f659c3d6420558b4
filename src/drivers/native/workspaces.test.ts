/**
 * Workspaces on the disk: made once, private, erased whole, also what a cut-off erasing has left.
 */
import assert from 'node:assert/strict';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { newRun, until } from '../../../test/contracts/driver.ts';
import { shellSpec } from '../../../test/lib/native-harness.ts';
import { systemClock } from '../../lib/clock.ts';
import { silentLog } from '../../lib/log.ts';
import { seededRandom } from '../../lib/random.ts';
import { DriverError } from '../driver.ts';
import { runFolder } from './label.ts';
import { createWorkspaces } from './workspaces.ts';

function given(name: string, body: (folder: string) => Promise<void>): void {
  test(name, async () => {
    const root = mkdtempSync(join(tmpdir(), 'einsora-workspaces-'));
    mkdirSync(join(root, 'run'));
    try {
      await body(join(root, 'workspaces'));
    } finally {
      rmSync(root, { recursive: true, force: true });
    }
  });
}

const open = (folder: string) =>
  createWorkspaces({ folder, clock: systemClock, random: seededRandom(3), log: silentLog });
const spec = {
  ...shellSpec('true'),
  workspace: { target: '/workspace', uid: 0, gid: 0, disk_bytes: null },
};
const { workload_id } = newRun();
const prepare = (folder: string) =>
  open(folder).prepare(workload_id, runFolder(join(folder, '..'), 'run'), spec);

given('a workspace is made private, and its run knows a user whose home it is', async (folder) => {
  const made = prepare(folder);
  assert.equal(made?.folder, join(folder, workload_id));
  assert.equal(statSync(made?.folder ?? '').mode & 0o777, 0o700);
  const uid = process.getuid?.() ?? 0;
  assert.ok(readFileSync(made?.passwd ?? '', 'utf8').includes(`:x:${uid}:`));
  assert.match(readFileSync(made?.passwd ?? '', 'utf8'), /:\/workspace:\/bin\/bash\n$/);
  writeFileSync(join(made?.folder ?? '', 'kept'), '');
  prepare(folder);
  assert.ok(existsSync(join(folder, workload_id, 'kept')));
});

given('erasing takes folders that nobody may enter, and follows no link', async (folder) => {
  prepare(folder);
  const outside = join(folder, '..', 'outside');
  mkdirSync(outside);
  writeFileSync(join(outside, 'theirs'), '');
  const inside = join(folder, workload_id);
  symlinkSync(outside, join(inside, 'link'));
  mkdirSync(join(inside, 'locked', 'deep'), { recursive: true });
  chmodSync(join(inside, 'locked'), 0);
  await open(folder).erase(workload_id);
  assert.deepEqual(readdirSync(folder), []);
  assert.ok(existsSync(join(outside, 'theirs')));
});

given('what a cut-off erasing has left goes at the next look', async (folder) => {
  prepare(folder);
  mkdirSync(join(folder, '.gone-abc', 'x'), { recursive: true });
  open(folder).sweep();
  await until(systemClock, 'it was cleared', async () =>
    existsSync(join(folder, '.gone-abc')) ? null : true,
  );
  assert.deepEqual(readdirSync(folder), [workload_id]);
});

given('a name that is no id of a workload reaches no folder', async (folder) => {
  prepare(folder);
  for (const name of ['..', '../run', '', `${workload_id}/..`, '.gone-abc']) {
    await assert.rejects(open(folder).erase(name), DriverError);
  }
});
