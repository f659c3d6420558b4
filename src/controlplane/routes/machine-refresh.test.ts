import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAgentRig } from '../../../test/lib/agent-rig.ts';
import { settle } from '../../../test/lib/fake-clock.ts';
import {
  addTenant,
  addUser,
  ask,
  createRig,
  gib,
  inventoryOf,
  type Rig,
  select,
} from '../../../test/lib/rig.ts';
import { createAgent, type Transport } from '../../agent/agent.ts';
import type { GpuRecord } from '../../contract/gpus.ts';
import type { Inventory } from '../../contract/machines.ts';
import { seededRandom } from '../../lib/random.ts';

const plain = inventoryOf({ cpu_millis: 2000, memory_bytes: 4 * gib });
const gpu: GpuRecord = {
  ...{ uuid: 'GPU-1', pci: '0000:01:00.0', vendor: 'nvidia', model: 'NVIDIA L4' },
  ...{ memory_bytes: 24 * gib, unified: false, reserved_bytes: 0, state: 'ok', reasons: [] },
  ...{ usable_by: ['docker'], display_attached: false, mig_mode: null, mig_of: null },
  driver_version: '580.82.07',
};
const path = '/v1/machines/desk/refresh';

/** A control plane with a real agent, of which the test says what it sees. */
async function withAgent(
  inventory: (anew: boolean) => Promise<Inventory>,
  body: (rig: Rig, advance: (ms: number) => Promise<void>) => Promise<void>,
): Promise<void> {
  const rig = await createRig();
  const agent_rig = createAgentRig();
  const transport: Transport = {
    hello: (words) => rig.sync.hello(rig.ids.machine_id, words),
    sync: (report, signal) => rig.sync.sync(rig.ids.machine_id, report, signal),
  };
  const random = seededRandom(3);
  const agent = createAgent({ ...agent_rig.deps, transport, random, inventory });
  try {
    await agent.known;
    await settle();
    await body(rig, async (ms) => {
      await Promise.all([rig.clock.advance(ms), agent_rig.clock.advance(ms)]);
      await settle();
    });
  } finally {
    await agent.stop();
    agent_rig.close();
    await rig.close();
  }
}

test('a person asks, the machine looks anew, and the answer is what it found', async () => {
  const asked: boolean[] = [];
  const look = async (anew: boolean) => {
    asked.push(anew);
    return anew ? { ...plain, gpus: [gpu] } : plain;
  };
  await withAgent(look, async (rig, advance) => {
    const answering = ask(rig, 'POST', path, { token: rig.token });
    for (let step = 0; step < 10; step += 1) await advance(100);
    const { status, body } = await answering;
    assert.equal(status, 200);
    assert.deepEqual(body.inventory, { ...plain, gpus: [gpu] });
    assert.deepEqual(asked, [false, true]);
    const rows = await select<{ actor: string; target: string; details: string }>(
      rig.store,
      "select actor, target, details from activity where route = 'machineChanged'",
    );
    assert.deepEqual(
      rows.map(({ actor, target, details }) => [actor, target, JSON.parse(details)]),
      [
        [
          'machine:desk',
          `machine:${rig.ids.machine_id}`,
          { gpus: 'NVIDIA L4 at 0000:01:00.0: new, ok' },
        ],
      ],
    );
  });
});

test('two who ask at once are both answered', async () => {
  await withAgent(
    async () => plain,
    async (rig, advance) => {
      const answering = [1, 2].map(() => ask(rig, 'POST', path, { token: rig.token }));
      for (let step = 0; step < 10; step += 1) await advance(100);
      const answers = await Promise.all(answering);
      assert.deepEqual(
        answers.map(({ status }) => status),
        [200, 200],
      );
    },
  );
});

test('a machine whose tools hang is said to be silent, and is heard of meanwhile', async () => {
  const never = new Promise<Inventory>(() => {});
  await withAgent(
    async (anew) => (anew ? never : plain),
    async (rig, advance) => {
      const answering = ask(rig, 'POST', path, { token: rig.token });
      for (let step = 0; step < 30; step += 1) await advance(1000);
      const { status, body } = await answering;
      assert.deepEqual([status, body.error?.code], [503, 'machine_silent']);
      assert.match(body.error?.message ?? '', /^desk was asked .* within 25 s\.$/);
      assert.ok(rig.presence.isOnline(rig.ids.machine_id));
    },
  );
});

test('a machine without an agent is offline, and that of another tenant is not there', async () => {
  const rig = await createRig();
  try {
    const silent = await ask(rig, 'POST', path, { token: rig.token });
    assert.ok([409, 503].includes(silent.status));
    await addTenant(rig.store, 'other', 't2');
    const { token } = await addUser(rig.store, rig.random, {
      ...{ tenant_id: 't2', name: 'eve', role: 'member' },
    });
    const foreign = await ask(rig, 'POST', path, { token });
    const missing = await ask(rig, 'POST', path.replace('desk', 'none'), { token });
    assert.deepEqual([foreign.status, missing.status], [404, 404]);
    const code = (answer: typeof foreign) => answer.body.error?.code;
    assert.deepEqual([code(foreign), code(missing)], ['not_found', 'not_found']);
  } finally {
    await rig.close();
  }
});
