/**
 * Proofs: written where only their owner reads them, derived where they must come again.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { createRig, type Rig, select } from '../../../test/lib/rig.ts';
import { checkToken } from '../../core/token.ts';
import { digest } from '../../lib/secret.ts';
import { createProofs } from './proofs.ts';

async function given(body: (rig: Rig, data_dir: string) => Promise<void>): Promise<void> {
  const rig = await createRig();
  const data_dir = mkdtempSync(join(tmpdir(), 'einsora-proofs-'));
  try {
    await body(rig, data_dir);
  } finally {
    await rig.close();
    rmSync(data_dir, { recursive: true, force: true });
  }
}

test("the owner's token is a file for the owner alone, and only its hash is stored", () =>
  given(async (rig, data_dir) => {
    const proofs = createProofs({ ...rig.apiDeps, data_dir });
    await proofs.writeOwnerToken(rig.ids.user_id);
    const path = join(data_dir, 'owner-token');
    const token = readFileSync(path, 'utf8').trim();
    assert.equal(checkToken('tsk_', token), true);
    assert.equal(statSync(path).mode & 0o777, 0o600);
    assert.equal(statSync(join(data_dir, 'pepper')).mode & 0o777, 0o600);
    const rows = await select<{ hash: string }>(
      rig.store,
      "select hash from tokens where name = 'local owner' and revoked_at is null",
    );
    assert.deepEqual(rows, [{ hash: digest(token) }]);
  }));

test('a derived key outlives the program, and depends on who asks with what', () =>
  given(async (rig, data_dir) => {
    const make = (principal: string, key: string, folder = data_dir) =>
      createProofs({ ...rig.apiDeps, data_dir: folder })
        .makeEndpointKey({ principal, key })
        .reveal();
    const first = make('ada', 'once');
    assert.equal(make('ada', 'once'), first);
    const elsewhere = mkdtempSync(join(tmpdir(), 'einsora-proofs-'));
    const others = [make('eve', 'once'), make('ada', 'twice'), make('ada', 'once', elsewhere)];
    assert.equal(new Set([first, ...others]).size, 4);
    rmSync(elsewhere, { recursive: true, force: true });
  }));

test('what is given out prints as redacted until it is revealed', () =>
  given(async (rig, data_dir) => {
    const proofs = createProofs({ ...rig.apiDeps, data_dir });
    const link = await proofs.makeSignInLink(rig.ids.user_id);
    const session = await proofs.openSession(link.reveal());
    const key = proofs.makeEndpointKey(null);
    const said = `${link} ${JSON.stringify({ session, key })} ${inspect({ link, session, key })}`;
    for (const secret of [link, key, session?.cookie]) {
      assert.ok(secret);
      assert.equal(said.includes(secret.reveal()), false);
    }
    assert.match(said, /\[redacted\]/);
  }));
