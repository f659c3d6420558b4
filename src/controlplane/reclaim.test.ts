/**
 * What guards say is heard without a write where nothing follows, and also where another control
 * plane heard something else.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { counted, createRig, type RigStore } from '../../test/lib/rig.ts';
import type { GuardReport } from '../contract/guard.ts';

const free: GuardReport = { level: 0, why: [], own_why: [], grace_ms: 0, until_ms: null };
const parks: GuardReport = { ...free, level: 4, why: ['on_battery'], grace_ms: 30_000 };

test('a guard that says the same again costs no transaction', async () => {
  let written: string[] = [];
  const wrap = (store: RigStore) => {
    const counting = counted(store);
    written = counting.written;
    return counting.store;
  };
  const rig = await createRig({ wrap });
  try {
    const { machine_id } = rig.ids;
    const reclaims = rig.startReclaims();
    const heard = () => written.filter((name) => name === 'hearMachineGuard').length;
    await reclaims.guarded(machine_id, free);
    assert.equal(heard(), 0, 'that it is free is so already');
    await reclaims.guarded(machine_id, parks);
    await reclaims.guarded(machine_id, { ...parks, until_ms: 5000 });
    assert.equal(heard(), 1);
    await reclaims.guarded(machine_id, free);
    assert.equal(heard(), 2);
    const inUse: GuardReport = { ...free, level: 1, why: ['owner_active'] };
    for (let round = 0; round < 5; round += 1) await reclaims.guarded(machine_id, inUse);
    assert.equal(heard(), 3);
  } finally {
    await rig.close();
  }
});

test('what another control plane heard of the machine is noticed in time', async () => {
  const rig = await createRig();
  try {
    const { machine_id } = rig.ids;
    const reclaims = rig.startReclaims();
    await reclaims.guarded(machine_id, parks);
    const cause = { now: rig.clock.now(), mono: rig.clock.monotonic(), actor: 'guard' };
    const elsewhere = { ...cause, request_id: null, machine_id, guard: null };
    assert.ok((await rig.store.transact('hearMachineGuard', elsewhere)).changed > 0);
    await rig.clock.advance(6 * 60_000);
    await reclaims.guarded(machine_id, parks);
    const barred = "select id from machines where reclaim_bars = 'guests'";
    const [found] = await rig.store.read((sql) => sql.all(barred), {});
    assert.equal(found?.id, machine_id);
  } finally {
    await rig.close();
  }
});
