/**
 * GPUs end to end over the API: made-up machines with made-up GPUs, the program's own agents and
 * the driver sim under them. Which GPU a workload gets, who else may have it, when it is free.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SimMachineText } from '../../src/contract/sim-machines.ts';
import type { Plan, Workload } from '../../src/contract/workloads.ts';
import { createFleet, type Fleet } from '../lib/fleet.ts';
import { select } from '../lib/rig.ts';

const two: SimMachineText = {
  ...{ name: 'box', as: 'libvirt', cpus: 64, memory_gib: 512 },
  gpus: [
    { model: 'NVIDIA L40S', memory_gib: 45, count: 2 },
    { model: 'NVIDIA GeForce RTX 4090', memory_gib: 24 },
  ],
};

async function withFleet(machines: SimMachineText[], body: (fleet: Fleet) => Promise<void>) {
  const fleet = await createFleet(machines);
  try {
    await body(fleet);
  } finally {
    await fleet.close();
  }
}

const onGpu = { kind: 'instance', accelerator: 'nvidia' };
const uuidsOf = ({ gpus }: Workload) => gpus.map(({ uuid }) => uuid);

async function planOf(fleet: Fleet, body: Record<string, unknown>): Promise<Plan> {
  const answer = await fleet.ask('op', 'POST', '/v1/plan', body);
  assert.equal(answer.status, 200, answer.text);
  return answer.body as unknown as Plan;
}

test('a workload gets exact GPUs, the smallest that do, and its run is told which', () =>
  withFleet([two], async (fleet) => {
    const plan = await planOf(fleet, onGpu);
    assert.deepEqual(plan.chosen?.devices, ['GPU-sim-box-2']);
    const small = await fleet.launch('op', onGpu);
    const shown = await fleet.untilState('op', small.id, 'running');
    assert.deepEqual(uuidsOf(shown), ['GPU-sim-box-2']);
    assert.deepEqual([shown.gpu_count, shown.placement?.placed_class], [1, 'nvidia-any']);
    const run = { workload_id: small.id, replica: 0, run_epoch: 1 };
    const { text } = await fleet.machine('box').driver.logs(run, 0, 1000);
    assert.match(text, /sim: has GPU-sim-box-2\n/);
    const both = await fleet.launch('op', { ...onGpu, gpu_class: 'l40s-48gb', gpu_count: 2 });
    const pair = await fleet.untilState('op', both.id, 'running');
    assert.deepEqual(uuidsOf(pair), ['GPU-sim-box-0', 'GPU-sim-box-1']);
    const events = await fleet.ask('op', 'GET', `/v1/workloads/${both.id}/events`);
    const machines = await fleet.ask('op', 'GET', '/v1/machines');
    const held = (machines.body.items?.[0]?.held_gpus ?? []) as { uuid: string }[];
    assert.equal(held.length, 3, 'its machine says who has them');
    assert.match(events.text, /as l40s-48gb with GPU-sim-box-0, GPU-sim-box-1\./);
  }));

test('who finds them all taken waits, is told why, and comes when one is proven free', () =>
  withFleet([{ ...two, gpus: [{ model: 'NVIDIA L40S', memory_gib: 45 }] }], async (fleet) => {
    const first = await fleet.launch('op', { ...onGpu, name: 'first' });
    await fleet.untilState('op', first.id, 'running');
    const plan = await planOf(fleet, onGpu);
    assert.equal(plan.chosen, null);
    assert.match(
      plan.machines_not_chosen[0]?.message ?? '',
      /box has 0 of 1 such GPUs free; asked for: 1 GPU; the rest is held by first/,
    );
    const next = await fleet.launch('op', { ...onGpu, name: 'next' });
    const waiting = await fleet.untilState('op', next.id, 'queued');
    assert.equal(waiting.reason?.code, 'gpus_busy');
    await fleet.ask('op', 'POST', `/v1/workloads/${first.id}/stop`);
    const came = await fleet.untilState('op', next.id, 'running');
    assert.deepEqual(uuidsOf(came), ['GPU-sim-box-0']);
    assert.deepEqual(uuidsOf(await fleet.show('op', first.id)), []);
  }));

test('what no machine has is refused with what it has', () =>
  withFleet([two], async (fleet) => {
    const cases: [Record<string, unknown>, string, RegExp][] = [
      [{ gpu_class: 'h100-80gb' }, 'gpus_of_other_model', /2 x NVIDIA L40S with 45 GiB/],
      [{ gpu_count: 4 }, 'too_few_gpus', /has 3 usable GPUs .* the 4 GPUs asked for/],
      [{ gpu_class: 'rtx-4090-24gb', gpu_count: 2 }, 'gpus_of_other_model', /\(rtx-4090\)/],
    ];
    for (const [body, code, why] of cases) {
      const plan = await planOf(fleet, { ...onGpu, ...body });
      const [refusal] = plan.machines_not_chosen;
      assert.equal(refusal?.code, code, JSON.stringify(body));
      assert.match(refusal?.message ?? '', why);
    }
  }));

test('sixty-four launches at once on eight GPUs: each GPU has one', () =>
  withFleet(
    [{ ...two, gpus: [{ model: 'NVIDIA L40S', memory_gib: 45, count: 8 }] }],
    async (fleet) => {
      const sizes = { cpu_millis: 100, memory_bytes: 2 ** 27 };
      const launched = await Promise.all(
        Array.from({ length: 64 }, () => fleet.launch('op', { ...onGpu, ...sizes })),
      );
      const states = async () => {
        const all = await Promise.all(launched.map(({ id }) => fleet.show('op', id)));
        return Map.groupBy(all, ({ state }) => state);
      };
      await fleet.until(async () => (await states()).get('running')?.length === 8, 'eight run');
      const { running = [], queued = [] } = Object.fromEntries(await states());
      assert.equal(running.length + queued.length, 64);
      assert.equal(new Set(running.flatMap(uuidsOf)).size, 8);
    },
  ));

test('a creator shares one GPU among their own, and nobody else is let onto it', () =>
  withFleet(
    [
      {
        ...{ ...two, sharing: 'community' },
        gpus: [{ model: 'NVIDIA L40S', memory_gib: 45 }],
      },
    ],
    async (fleet) => {
      const share = { ...onGpu, share_device: true };
      const first = await fleet.launch('op', { ...share, name: 'first' });
      await fleet.untilState('op', first.id, 'running');
      const plan = await planOf(fleet, { ...share, name: 'second' });
      assert.deepEqual(plan.shares_with, ['first']);
      const second = await fleet.launch('op', { ...share, name: 'second' });
      const shown = await fleet.untilState('op', second.id, 'running');
      assert.deepEqual(shown.gpus, [{ uuid: 'GPU-sim-box-0', shared_with: ['first'] }]);
      const alone = await fleet.launch('op', { ...onGpu, name: 'alone' });
      const theirs = await fleet.launch('guests', { ...share, name: 'theirs' });
      await fleet.untilState('op', alone.id, 'queued');
      await fleet.untilState('guests', theirs.id, 'queued');
      const told = await fleet.show('guests', theirs.id);
      assert.doesNotMatch(JSON.stringify(told), /first|second/, 'whose they are is not theirs');
      await fleet.ask('op', 'DELETE', `/v1/workloads/${first.id}`);
      await fleet.untilState('op', first.id, 'deleted');
      assert.equal((await fleet.show('guests', theirs.id)).state, 'queued', 'one is left');
      await fleet.ask('op', 'DELETE', `/v1/workloads/${second.id}`);
      await fleet.until(async () => {
        const states = [(await fleet.show('op', alone.id)).state];
        states.push((await fleet.show('guests', theirs.id)).state);
        return states.includes('running');
      }, 'another one comes');
    },
  ));

test('who asks for no GPU is given none, and may run beside those who have them', () =>
  withFleet([two], async (fleet) => {
    const plain = await fleet.launch('op', { kind: 'instance' });
    const shown = await fleet.untilState('op', plain.id, 'running');
    assert.deepEqual([shown.gpus, shown.gpu_count], [[], 0]);
    const three = await fleet.launch('op', { ...onGpu, name: 'one' });
    await fleet.untilState('op', three.id, 'running');
  }));

test('the catalog says which machines have the GPU of a class', () =>
  withFleet([two], async (fleet) => {
    const { body } = await fleet.ask('op', 'GET', '/v1/catalog');
    const classes = body.classes as { name: string; machines: string[] }[];
    const offered = classes.filter(({ machines }) => machines.length > 0).map(({ name }) => name);
    assert.deepEqual(
      offered.filter((name) => !name.startsWith('cpu-')),
      ['nvidia-any', 'rtx-4090-24gb', 'l40s-48gb'],
    );
  }));

test('what runs do with their GPUs is shown, and told for a while', async () => {
  const fleet = await createFleet([two], { whole: true });
  try {
    const launched = await fleet.launch('op', onGpu);
    await fleet.untilState('op', launched.id, 'running');
    const isTold = async () => (await fleet.show('op', launched.id)).use?.gpu_percent === 50;
    await fleet.until(isTold, 'a sample of it');
    const { use } = await fleet.show('op', launched.id);
    assert.equal(use?.gpu_memory_bytes, 2 ** 30);
    const stats = await fleet.ask('op', 'GET', `/v1/workloads/${launched.id}/stats`);
    assert.match(stats.text, /GPU-sim-box-2|"gpu_percent":50/);
  } finally {
    await fleet.close();
  }
});

test('a GPU that its machine no longer has is not placed; a quota counts GPUs', () =>
  withFleet([two], async (fleet) => {
    const { machine } = fleet.machine('box');
    machine.gpus.splice(0, 1);
    await fleet.look();
    const plan = await planOf(fleet, { ...onGpu, gpu_class: 'l40s-48gb' });
    assert.equal(plan.machines_not_chosen[0]?.code, 'gpus_of_other_model');
    const [tenant] = await select<{ slug: string }>(fleet.rig.store, 'select slug from tenants');
    const limited = await fleet.ask('op', 'PUT', `/v1/tenants/${tenant?.slug}/quota`, {
      limits: { gpus: 1 },
    });
    assert.ok(limited.status < 300, limited.text);
    const sizes = { cpu_millis: 100, memory_bytes: 2 ** 27 };
    await fleet.launch('op', { ...onGpu, ...sizes });
    const over = await fleet.ask('op', 'POST', '/v1/workloads', { ...onGpu, ...sizes });
    assert.equal(over.body.error?.code, 'quota_exceeded');
    await fleet.launch('op', { kind: 'instance' });
  }));
