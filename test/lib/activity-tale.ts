/**
 * A log of activity for tests: actions written and sealed, read back and checked like an admin
 * would.
 */
import {
  type Anchor,
  anchorText,
  type ChainReport,
  checkChain,
  no_hash,
} from '../../src/core/activity-chain.ts';
import { makeId } from '../../src/core/ids.ts';
import { isSignature } from '../../src/lib/ed25519.ts';
import { digest } from '../../src/lib/secret.ts';
import type { Action } from '../../src/store/activity.ts';
import { readSeals } from '../../src/store/activity-seal.ts';
import type { Rig } from './rig.ts';

/** An action of the rig's operator, one second after the one before. */
export async function nextAction(rig: Rig, over: Partial<Action> = {}): Promise<Action> {
  await rig.clock.advance(1000);
  const now = rig.clock.now();
  return {
    id: makeId(now, rig.random.bytes(10)),
    tenant_id: rig.ids.tenant_id,
    user_id: rig.ids.user_id,
    actor: 'user:ada',
    via: 'token',
    proof_id: 'a-token',
    request_id: makeId(now, rig.random.bytes(10)),
    client_request_id: null,
    route: 'setSecret',
    now,
    ...over,
  };
}

/** Writes so many rows. */
export async function act(rig: Rig, count: number, over: Partial<Action> = {}): Promise<void> {
  const notes = [];
  for (let number = 0; number < count; number += 1) {
    const action = await nextAction(rig, over);
    notes.push({ action, target: `secret:s${number}`, outcome: 'done', details: { number } });
  }
  await rig.store.transact('recordNotes', { notes });
}

/** All anchors of a tenant. */
export async function anchorsOf(rig: Rig, tenant_id = rig.ids.tenant_id): Promise<Anchor[]> {
  const found: Anchor[] = [];
  for (let offset = 0; ; ) {
    const page = await rig.apiDeps.activity.anchors.page(tenant_id, offset);
    found.push(...page.anchors);
    if (!page.more) return found;
    offset = page.next_offset;
  }
}

/** Checks all of a tenant's log, as it lies in the store. */
export async function checkLog(rig: Rig, anchors: readonly Anchor[]): Promise<ChainReport> {
  const { tenant_id } = rig.ids;
  const check = checkChain(
    { tenant_id, first_number: 1, previous_hash: no_hash },
    {
      digest,
      isSigned: (one) =>
        one.public_key === rig.apiDeps.activity.anchors.public_key &&
        isSignature(one.public_key, anchorText(one), one.signature),
    },
  );
  for (let after = 0; ; ) {
    const page = await rig.store.read(readSeals, { tenant_id, after, limit: 2 });
    for (const { seal, rows } of page.seals) check.seal(seal, rows);
    const last = page.seals.at(-1);
    if (page.more === 0 || last === undefined) return check.finish(anchors, page.head_seq);
    after = last.seal.number;
  }
}
