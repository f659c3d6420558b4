/**
 * What is made of an nft that is missing, refused or odd: told, with the command that helps.
 */
import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { silentLog } from '../../lib/log.ts';
import { createFence } from './fence.ts';
import { createNft, NftError } from './nft.ts';

/** A stand-in that says this on its standard error, and ends with 1. */
async function withProgram(says: string, body: (path: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-nft-'));
  try {
    const path = join(folder, 'nft');
    writeFileSync(path, `#!/bin/sh\nprintf '%s\\n' "${says}" >&2\nexit 1\n`);
    chmodSync(path, 0o755);
    await body(`${folder}:/usr/bin:/bin`);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const lookWith = (path: string) =>
  createFence({ install_id: 'x', allow_lan: false, log: silentLog, nft: createNft(path) }).look();

test('a missing nft is named with how it is installed', async () => {
  const found = await lookWith('/nowhere');
  assert.equal(found.status, 'warning');
  assert.match(found.message, /no container with a network starts: .*nft is not installed/);
  assert.match(found.fix ?? '', /nftables/);
});

test('who is not root is told so', async () => {
  const says = 'Operation not permitted (you must be root)';
  await withProgram(says, async (path) => {
    const found = await lookWith(path);
    assert.match(found.message, /only root may set rules/);
    assert.match(found.fix ?? '', /sudo/);
  });
});

test('a table that is not there is no failure; whatever else is refused is', async () => {
  await withProgram('Error: No such file or directory', async (path) => {
    assert.equal(await createNft(path).listing('x'), null);
    assert.equal((await lookWith(path)).status, 'ok');
  });
  await withProgram('Error: Could not process rule: Operation not supported', async (path) => {
    await assert.rejects(createNft(path).apply('table inet x'), (error) => {
      assert.ok(error instanceof NftError);
      assert.match(error.message, /nft refused: .*Operation not supported/);
      return true;
    });
    await assert.rejects(createNft(path).packets('x', 'y'), NftError);
  });
});
