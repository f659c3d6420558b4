/**
 * Disabling a user or a tenant stops what is theirs, with the change.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createFleet, type Fleet } from '../../test/lib/fleet.ts';
import { select } from '../../test/lib/rig.ts';

const sizes = { kind: 'endpoint', model: 'smollm2-135m', gpu_class: 'cpu-1c-2g' };

async function withFleet(body: (fleet: Fleet) => Promise<void>): Promise<void> {
  const fleet = await createFleet([{ name: 'rack', sharing: 'community', as: 'libvirt', cpus: 2 }]);
  try {
    await body(fleet);
  } finally {
    await fleet.close();
  }
}

/** Of a disabled tenant nobody asks; its workloads are read past the API. */
async function rowOf({ rig }: Fleet, id: string) {
  const text = 'select state, intent, park_cause, code from workloads where id = $1';
  const [row] = await select(rig.store, text, [id]);
  return [row?.state, row?.intent, row?.park_cause, row?.code];
}

test("what is a disabled tenant's is parked within a pass, what waits too", async () => {
  await withFleet(async (fleet) => {
    const running = await fleet.launch('acme', { ...sizes, name: 'one' });
    await fleet.untilState('acme', running.id, 'running');
    const other = await fleet.launch('bolt', { ...sizes, name: 'other' });
    await fleet.untilState('bolt', other.id, 'running');
    const waiting = await fleet.launch('acme', { ...sizes, name: 'two' });
    await fleet.untilState('acme', waiting.id, 'queued');
    const done = await fleet.ask('op', 'POST', '/v1/tenants/acme/disable');
    assert.equal(done.status, 200, done.text);
    await fleet.advance(6000);
    const parked = ['stopped', 'stopped', 'trust', 'tenant_was_disabled'];
    assert.deepEqual(await rowOf(fleet, running.id), parked);
    assert.deepEqual(await rowOf(fleet, waiting.id), parked);
    assert.equal((await fleet.show('bolt', other.id)).state, 'running');
    const seen = await fleet.machine('rack').driver.observe();
    assert.equal(seen.filter(({ state }) => state === 'running').length, 1);

    await fleet.ask('op', 'POST', '/v1/tenants/acme/enable');
    await fleet.advance(60_000);
    assert.equal((await fleet.show('acme', running.id)).state, 'stopped');
    const events = await fleet.ask('acme', 'GET', `/v1/workloads/${running.id}/events`);
    assert.match(events.text, /stopped because its tenant was disabled/);
    await fleet.ask('acme', 'POST', `/v1/workloads/${running.id}/start`);
    await fleet.untilState('acme', running.id, 'running');
  });
});

test('what a disabled user made is parked; what others of the tenant made is not', async () => {
  await withFleet(async (fleet) => {
    const { user_id } = await fleet.person('acme');
    const theirs = await fleet.launch('acme', { ...sizes, name: 'one' });
    await fleet.untilState('acme', theirs.id, 'running');
    const done = await fleet.ask('op', 'POST', `/v1/users/${user_id}/disable`);
    assert.equal(done.status, 200, done.text);
    await fleet.advance(6000);
    const parked = ['stopped', 'stopped', 'trust', 'creator_disabled'];
    assert.deepEqual(await rowOf(fleet, theirs.id), parked);
  });
});
