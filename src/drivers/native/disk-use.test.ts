/**
 * How much of the disk a folder takes, on real folders.
 */
import assert from 'node:assert/strict';
import { linkSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { createFakeClock } from '../../../test/lib/fake-clock.ts';
import { bytesBelow, createDiskUse } from './disk-use.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'einsora-disk-use-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const mib = 2 ** 20;

test('files count once whatever their names, links and what they lead to do not', async () => {
  mkdirSync(join(folder, 'below'));
  writeFileSync(join(folder, 'below', 'data'), Buffer.alloc(mib, 1));
  linkSync(join(folder, 'below', 'data'), join(folder, 'again'));
  symlinkSync('/usr', join(folder, 'elsewhere'));
  symlinkSync('.', join(folder, 'below', 'round'));
  const bytes = (await bytesBelow(folder)) ?? 0;
  assert.ok(bytes >= mib && bytes < mib + 64 * 1024, String(bytes));
});

test('what is not there, or is too much to count, is unknown and not nothing', async () => {
  await assert.rejects(bytesBelow(join(folder, 'none')), { code: 'ENOENT' });
  for (let number = 0; number < 5; number += 1) writeFileSync(join(folder, String(number)), '');
  assert.equal(await bytesBelow(folder, 4), null);
  assert.equal(await bytesBelow(folder, 5), 0);
});

test('asking gives what was counted last, and counts anew after a while', async () => {
  const clock = createFakeClock();
  const use = createDiskUse(clock);
  const counted = async (wanted: (bytes: number | null) => boolean) => {
    // However busy the machine is: the runner's own limit ends what never comes.
    while (!wanted(use.bytesOf(folder))) await new Promise((resolve) => setImmediate(resolve));
    return use.bytesOf(folder);
  };
  assert.equal(use.bytesOf(folder), null);
  assert.equal(await counted((bytes) => bytes !== null), 0);
  writeFileSync(join(folder, 'data'), Buffer.alloc(mib, 1));
  assert.equal(use.bytesOf(folder), 0, 'not again so soon');
  await clock.advance(5 * 60_000);
  assert.equal(use.bytesOf(folder), 0, 'asking does not wait');
  assert.ok(((await counted((bytes) => bytes !== 0)) ?? 0) >= mib);
  assert.equal(use.bytesOf(join(folder, 'none')), null);
});
