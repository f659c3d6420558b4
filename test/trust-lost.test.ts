/**
 * Trust that ends while something runs: parked within a pass, said on the timeline, and running
 * again only when a person starts it.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Workload } from '../src/contract/workloads.ts';
import { createFleet, type Fleet } from './lib/fleet.ts';

const endpoint = { kind: 'endpoint', model: 'smollm2-135m', gpu_class: 'cpu-1c-2g', name: 'chat' };

type Lost = {
  what: string;
  sharing: 'invite-only' | 'community';
  lose(fleet: Fleet, machine: string): Promise<{ status: number; text: string }>;
  regain(fleet: Fleet, machine: string): Promise<{ status: number; text: string }>;
};
const share = (body: object) => (fleet: Fleet, machine: string) =>
  fleet.ask('acme', 'PUT', `/v1/machines/${machine}/sharing`, body);
const ways: Lost[] = [
  {
    ...{ what: 'a guest is removed', sharing: 'invite-only' },
    lose: share({ uninvite: ['bolt'] }),
    regain: share({ invite: ['bolt'] }),
  },
  {
    ...{ what: 'the machine is made private', sharing: 'invite-only' },
    lose: share({ sharing: 'private' }),
    regain: share({ invite: ['bolt'] }),
  },
  {
    ...{ what: 'the community is shut out', sharing: 'community' },
    lose: share({ sharing: 'invite-only', uninvite: ['bolt'] }),
    regain: share({ sharing: 'community' }),
  },
];

async function parked(fleet: Fleet, id: string, what: string): Promise<Workload> {
  const row = await fleet.untilState('bolt', id, 'stopped');
  assert.deepEqual([row.intent, row.park_cause], ['stopped', 'trust'], what);
  assert.equal(row.reason?.code, 'trust_lost', what);
  assert.match(row.reason?.fix ?? '', /start chat/, what);
  const { text } = await fleet.ask('bolt', 'GET', `/v1/workloads/${id}/events`);
  assert.match(text, /may not run on its machine any more/, what);
  return row;
}

for (const { what, sharing, lose, regain } of ways) {
  test(`what runs is parked within a pass when ${what}`, async () => {
    const fleet = await createFleet([
      { name: 'rack', owner: 'acme', as: 'libvirt', sharing, guests: ['bolt'] },
    ]);
    try {
      await fleet.person('acme', 'tenant-admin');
      const made = await fleet.launch('bolt', endpoint);
      await fleet.untilState('bolt', made.id, 'running');
      const before = fleet.rig.clock.now();
      const lost = await lose(fleet, 'rack');
      assert.equal(lost.status, 200, lost.text);
      await parked(fleet, made.id, what);
      assert.ok(fleet.rig.clock.now() - before <= 10_000, 'within a pass');
      const seen = await fleet.machine('rack').driver.observe();
      assert.ok(
        seen.every(({ state }) => state !== 'running'),
        what,
      );

      const back = await regain(fleet, 'rack');
      assert.equal(back.status, 200, back.text);
      await fleet.advance(60_000);
      assert.equal((await fleet.show('bolt', made.id)).state, 'stopped', 'a person starts it');
      await fleet.ask('bolt', 'POST', `/v1/workloads/${made.id}/start`);
      const again = await fleet.untilState('bolt', made.id, 'running');
      assert.equal(again.placement?.run_epoch, 2);
      const { text } = await fleet.ask('bolt', 'GET', `/v1/workloads/${made.id}/export`);
      assert.match(text, /"isolation_tier": ?"untrusted"/);
    } finally {
      await fleet.close();
    }
  });
}

test('what its owner gives away runs on only as far as the new owner shares it', async () => {
  const fleet = await createFleet([
    { name: 'rack', owner: 'acme', as: 'libvirt', sharing: 'invite-only', guests: ['bolt'] },
  ]);
  try {
    await fleet.person('acme', 'tenant-admin');
    await fleet.person('dust');
    const theirs = await fleet.launch('bolt', endpoint);
    await fleet.untilState('bolt', theirs.id, 'running');
    const given = await fleet.ask('acme', 'POST', '/v1/machines/rack/give', { to: 'dust' });
    assert.equal(given.status, 200, given.text);
    await parked(fleet, theirs.id, 'given away');
    const started = await fleet.ask('bolt', 'POST', `/v1/workloads/${theirs.id}/start`);
    assert.equal(started.status, 202, started.text);
    await fleet.advance(12_000);
    const waits = await fleet.show('bolt', theirs.id);
    assert.equal(waits.state, 'queued');
    assert.ok(!JSON.stringify(waits.reason).includes('rack'), 'it does not exist for them');
  } finally {
    await fleet.close();
  }
});
