/**
 * Who may run what where, end to end: every level of trust on every sort of machine so shared, for
 * every kind, from the question to the API to what the machine's driver runs. What is expected
 * stands here as it does in the docs (docs/trust.md), and is not worked out by the program.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Plan } from '../src/contract/workloads.ts';
import type { Placement } from '../src/core/workload.ts';
import { createFleet, type Fleet } from './lib/fleet.ts';
import { select } from './lib/rig.ts';

type Isolation = 'strong' | 'weak' | 'sim';
type Sharing = 'private' | 'invite-only' | 'community';
/** hidden: for this tenant the machine does not exist; refused: it is named, with the reason. */
type Cell = 'runs' | 'refused' | 'hidden';

const expected: Record<string, Record<Isolation, Record<Sharing, Cell>>> = {
  // The tenant that owns the machine.
  acme: {
    strong: { private: 'runs', 'invite-only': 'runs', community: 'runs' },
    weak: { private: 'runs', 'invite-only': 'runs', community: 'runs' },
    sim: { private: 'runs', 'invite-only': 'runs', community: 'runs' },
  },
  // One that is invited to it.
  bolt: {
    strong: { private: 'hidden', 'invite-only': 'runs', community: 'runs' },
    weak: { private: 'hidden', 'invite-only': 'refused', community: 'refused' },
    sim: { private: 'hidden', 'invite-only': 'refused', community: 'refused' },
  },
  // Any other.
  core: {
    strong: { private: 'hidden', 'invite-only': 'hidden', community: 'runs' },
    weak: { private: 'hidden', 'invite-only': 'hidden', community: 'refused' },
    sim: { private: 'hidden', 'invite-only': 'hidden', community: 'refused' },
  },
};
const as = { strong: 'libvirt', weak: 'docker', sim: null } as const;
const isolations: Isolation[] = ['strong', 'weak', 'sim'];
const sharings: Sharing[] = ['private', 'invite-only', 'community'];
const gpu_class = 'cpu-1c-2g';
const kinds = {
  endpoint: { kind: 'endpoint', model: 'smollm2-135m', gpu_class },
  notebook: { kind: 'notebook', gpu_class },
  instance: { kind: 'instance', gpu_class },
} as const;

const fleet = {} as Fleet;
before(async () => {
  const machines = isolations.flatMap((isolation) =>
    sharings.flatMap((sharing) => {
      const region = `${isolation}-${sharing}`;
      const size = { cpus: 64, memory_gib: 256 };
      return [
        // A guest of a private machine is none: the sharing decides.
        {
          ...{ name: `m-${region}`, region, owner: 'acme', sharing, guests: ['bolt'] },
          ...{ as: as[isolation], ...size },
        },
        // Everybody may know of the region, by a machine that is too small for anything.
        {
          ...{ name: `small-${region}`, region, owner: 'dust', sharing: 'community' as const },
          ...{ as: 'libvirt' as const, cpus: 1, memory_gib: 1 },
        },
      ];
    }),
  );
  Object.assign(fleet, await createFleet(machines));
});
after(() => fleet.close?.());

let number = 0;
const fresh = () => {
  number += 1;
  return `w${number}`;
};

for (const [kind, body] of Object.entries(kinds)) {
  test(`every cell of the matrix, for a ${kind}`, async () => {
    for (const slug of Object.keys(expected)) {
      for (const isolation of isolations) {
        for (const sharing of sharings) {
          await checkCell(slug, isolation, sharing, body);
        }
      }
    }
  });
}

test('a virtual machine is planned by the same matrix', async () => {
  for (const slug of Object.keys(expected)) {
    for (const isolation of isolations) {
      for (const sharing of sharings) {
        const region = `${isolation}-${sharing}`;
        checkPlan(await plan(slug, { kind: 'vm', gpu_class, region }), slug, isolation, sharing);
      }
    }
  }
});

async function plan(slug: string, body: object): Promise<Plan> {
  const answer = await fleet.ask(slug, 'POST', '/v1/plan', body);
  assert.equal(answer.status, 200, answer.text);
  return answer.body as unknown as Plan;
}

function checkPlan(told: Plan, slug: string, isolation: Isolation, sharing: Sharing): Cell {
  const cell = expected[slug]?.[isolation][sharing];
  const name = `m-${isolation}-${sharing}`;
  const where = `${slug} on ${name}`;
  const refusal = told.machines_not_chosen.find(({ machine_name }) => machine_name === name);
  if (cell === 'runs') {
    assert.equal(told.chosen?.machine_name, name, where);
    assert.equal(told.chosen?.isolation, isolation === 'strong' ? 'strong' : 'weak', where);
    const tier = slug === 'acme' ? 'trusted' : 'untrusted';
    assert.equal(told.chosen?.isolation_tier, tier, where);
  } else {
    assert.equal(told.chosen, null, where);
    assert.equal(refusal?.code, cell === 'refused' ? 'isolation_not_allowed' : undefined, where);
  }
  return cell ?? 'hidden';
}

async function checkCell(
  slug: string,
  isolation: Isolation,
  sharing: Sharing,
  body: Record<string, unknown>,
): Promise<void> {
  const name = `m-${isolation}-${sharing}`;
  const where = `${slug} on ${name}`;
  const asked = { ...body, region: `${isolation}-${sharing}` };
  const cell = checkPlan(await plan(slug, asked), slug, isolation, sharing);
  const machine = fleet.machine(name);
  const before = machine.started.length;
  const made = await fleet.launch(slug, { ...asked, name: fresh() });
  if (cell === 'runs') {
    const there = await fleet.untilState(slug, made.id, 'running');
    assert.equal(there.placement?.machine_name, name, where);
    const tier = slug === 'acme' ? 'trusted' : 'untrusted';
    assert.equal(there.placement?.isolation_tier, tier, where);
    assert.equal(machine.started.length, before + 1, where);
  } else {
    await fleet.advance(6000);
    const waits = await fleet.show(slug, made.id);
    assert.equal(waits.state, 'queued', where);
    assert.equal(waits.placement, null, where);
    // Of a machine that it may not know of it is told nothing, not even that.
    const said = JSON.stringify(waits.reason);
    if (cell === 'hidden') assert.ok(!said.includes(name), `${where}: ${said}`);
    assert.equal(machine.started.length, before, where);
  }
  await fleet.ask(slug, 'DELETE', `/v1/workloads/${made.id}`);
  await fleet.until(async () => (await fleet.show(slug, made.id)).state === 'deleted', where);
}

test('what changes past every transaction is still not run: desired state asks for itself', async () => {
  const asked = { ...kinds.endpoint, region: 'strong-community' };
  const made = await fleet.launch('core', { ...asked, name: fresh() });
  await fleet.untilState('core', made.id, 'running');
  const { driver, machine_id } = fleet.machine('m-strong-community');
  const runs = async () =>
    (await driver.observe()).filter(({ state }) => state === 'running').length;
  assert.equal(await runs(), 1);
  const to = (sharing: Sharing) =>
    fleet.rig.store.transact('write', {
      text: 'update machines set sharing = $2, generation = generation + 1 where id = $1',
      params: [machine_id, sharing],
    });
  await to('private');
  fleet.rig.sync.wake();
  await fleet.advance(6000);
  assert.equal(await runs(), 0);
  await to('community');
  await fleet.ask('core', 'DELETE', `/v1/workloads/${made.id}`);
  await fleet.until(async () => (await fleet.show('core', made.id)).state === 'deleted', 'gone');
});

test('what is decided on an old look is refused where it is written', async () => {
  const { store, clock } = fleet.rig;
  const { machine_id } = fleet.machine('m-weak-community');
  const asked = { ...kinds.endpoint, region: 'weak-community' };
  const made = await fleet.launch('core', { ...asked, name: fresh() });
  await fleet.untilState('core', made.id, 'queued');
  const text = 'select revision from workloads where id = $1';
  const [row] = await select<{ revision: number }>(store, text, [made.id]);
  const placement: Placement = {
    ...{
      machine_id,
      machine_name: 'm-weak-community',
      driver: 'sim' as const,
      as: 'docker' as const,
    },
    ...{ isolation: 'weak' as const, placed_class: gpu_class },
  };
  const placed = await store.transact('placeWorkload', {
    ...{ workload_id: made.id, revision: row?.revision ?? 0, placement },
    ...{ now: clock.now(), mono: clock.monotonic(), actor: 'controller', request_id: null },
  });
  assert.equal(placed.outcome, 'not_allowed');
  await fleet.ask('core', 'DELETE', `/v1/workloads/${made.id}`);
});

test("outside dev mode nobody is as another: the same machines are their owner's", async () => {
  const plain = await createFleet(
    [{ name: 'rack', as: 'libvirt', sharing: 'community', owner: 'acme' }],
    { dev: false },
  );
  try {
    const made = await plain.launch('core', { ...kinds.endpoint, name: 'chat' });
    await plain.advance(12_000);
    assert.equal((await plain.show('core', made.id)).state, 'queued');
    const own = await plain.launch('acme', { ...kinds.endpoint, name: 'own' });
    const there = await plain.untilState('acme', own.id, 'running');
    assert.equal(there.placement?.isolation, 'weak');
  } finally {
    await plain.close();
  }
});
