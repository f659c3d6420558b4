/**
 * Placement end to end on made-up machines: what has a disk comes back to it or waits for it, a
 * start that fails goes elsewhere and says so, and a region is a region.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SimMachineText } from '../src/contract/sim-machines.ts';
import type { Workload } from '../src/contract/workloads.ts';
import { createFleet, type Fleet } from './lib/fleet.ts';

async function withFleet(
  machines: SimMachineText[],
  body: (fleet: Fleet) => Promise<void>,
): Promise<void> {
  const fleet = await createFleet(machines);
  try {
    await body(fleet);
  } finally {
    await fleet.close();
  }
}

const box = (name: string, more: Partial<SimMachineText> = {}): SimMachineText => ({
  ...{ name, owner: 'acme', as: 'docker', cpus: 2, memory_gib: 8 },
  ...more,
});
const notebook = { kind: 'notebook', name: 'nb', gpu_class: 'cpu-1c-2g' };
const whereOf = ({ placement }: Workload) => placement?.machine_name ?? null;

async function messages(fleet: Fleet, id: string): Promise<string[]> {
  const { body } = await fleet.ask('acme', 'GET', `/v1/workloads/${id}/events`);
  return (body.items as { message: string }[]).map(({ message }) => message);
}

test('a notebook comes back to its disk, and waits for that machine where it must', () =>
  withFleet([box('m1'), box('m2')], async (fleet) => {
    const { id } = await fleet.launch('acme', notebook);
    const first = await fleet.untilState('acme', id, 'running');
    const home = whereOf(first) ?? '';
    assert.deepEqual(first.home, { machine_name: home, region: 'local' });
    await fleet.ask('acme', 'POST', `/v1/workloads/${id}/stop`);
    await fleet.untilState('acme', id, 'stopped');
    // Both halves of its home are taken, while the other machine is empty.
    const others = [];
    for (const name of ['a', 'b']) {
      const other = await fleet.launch('acme', { ...notebook, name, machine: home });
      await fleet.untilState('acme', other.id, 'running');
      others.push(other.id);
    }
    await fleet.ask('acme', 'POST', `/v1/workloads/${id}/start`);
    const waits = await fleet.untilState('acme', id, 'queued');
    assert.equal(waits.reason?.code, 'home_busy');
    assert.match(
      waits.reason?.message ?? '',
      new RegExp(`^Its disk is on ${home}, which has 0 CPU`),
    );
    assert.match(waits.reason?.message ?? '', /the rest is held by a, b\.$/);
    for (const other of others) await fleet.ask('acme', 'DELETE', `/v1/workloads/${other}`);
    assert.equal(whereOf(await fleet.untilState('acme', id, 'running')), home);
  }));

test('what has its home on a machine that is not heard of waits, and says since when', () =>
  withFleet([box('m1'), box('m2')], async (fleet) => {
    const { id } = await fleet.launch('acme', notebook);
    const home = whereOf(await fleet.untilState('acme', id, 'running')) ?? '';
    await fleet.ask('acme', 'POST', `/v1/workloads/${id}/stop`);
    await fleet.untilState('acme', id, 'stopped');
    fleet.machine(home).cut();
    await fleet.advance(120_000);
    await fleet.ask('acme', 'POST', `/v1/workloads/${id}/start`);
    const waits = await fleet.untilState('acme', id, 'queued');
    assert.equal(waits.reason?.code, 'home_offline');
    fleet.machine(home).heal();
    assert.equal(whereOf(await fleet.untilState('acme', id, 'running')), home);
  }));

test('a start that fails goes to another machine, and the timeline says where and why', () =>
  withFleet(
    [box('m1', { plans: [{ start_error: 'start_failed' }] }), box('m2', { cpus: 4 })],
    async (fleet) => {
      const endpoint = { kind: 'endpoint', model: 'smollm2-135m', gpu_class: 'cpu-1c-2g' };
      const { id } = await fleet.launch('acme', endpoint);
      const running = await fleet.untilState('acme', id, 'running');
      assert.equal(whereOf(running), 'm2');
      const told = (await messages(fleet, id)).join('\n');
      assert.match(told, /^Placed on m1 by sim as cpu-1c-2g\.$/m);
      assert.match(told, /That was on m1\.$/m);
      assert.match(told, /^Placed on m2 by sim as cpu-1c-2g, attempt 2 of 3, away from m1\.$/m);
    },
  ));

test('a fault of a machine that would end it for good is tried elsewhere where there is one', () =>
  withFleet(
    [box('m1', { plan: { start_error: 'sandbox_missing' } }), box('m2', { cpus: 4 })],
    async (fleet) => {
      const endpoint = { kind: 'endpoint', model: 'smollm2-135m', gpu_class: 'cpu-1c-2g' };
      const { id } = await fleet.launch('acme', endpoint);
      assert.equal(whereOf(await fleet.untilState('acme', id, 'running')), 'm2');
    },
  ));

test('where the only machine is at fault, it ends at once and says what to do', () =>
  withFleet([box('m1', { plan: { start_error: 'sandbox_missing' } })], async (fleet) => {
    const endpoint = { kind: 'endpoint', model: 'smollm2-135m', gpu_class: 'cpu-1c-2g' };
    const { id } = await fleet.launch('acme', endpoint);
    const failed = await fleet.untilState('acme', id, 'failed');
    assert.equal(failed.reason?.code, 'sandbox_missing');
    assert.equal(failed.restarts, 1);
  }));

test('a workload runs in the region that was asked for, and waits there', () =>
  withFleet([box('m1'), box('far', { region: 'attic', cpus: 64 })], async (fleet) => {
    const needed = await fleet.ask('acme', 'POST', '/v1/workloads', notebook);
    assert.equal(needed.body.error?.code, 'region_needed');
    const { id } = await fleet.launch('acme', { ...notebook, region: 'local' });
    assert.equal(whereOf(await fleet.untilState('acme', id, 'running')), 'm1');
    const big = { ...notebook, name: 'big', gpu_class: 'cpu-4c-8g', region: 'local' };
    const waits = await fleet.launch('acme', big);
    const queued = await fleet.untilState('acme', waits.id, 'queued');
    assert.equal(queued.reason?.code, 'no_machine_matches');
    assert.match(queued.reason?.message ?? '', /1 in another region, 1 with too few CPUs/);
  }));

test('a machine changes its region only while nothing lives there', () =>
  withFleet([box('m1')], async (fleet) => {
    const { id } = await fleet.launch('acme', notebook);
    await fleet.untilState('acme', id, 'running');
    const move = () => fleet.ask('op', 'PUT', '/v1/machines/m1/region', { region: 'attic' });
    const running = await move();
    assert.equal(
      running.body.error?.message,
      'm1 cannot change its region while something lives there: 1 that run and the disks of 1 workloads.',
    );
    await fleet.ask('acme', 'POST', `/v1/workloads/${id}/stop`);
    await fleet.untilState('acme', id, 'stopped');
    assert.match((await move()).body.error?.message ?? '', /: the disks of 1 workloads\.$/);
    await fleet.ask('acme', 'DELETE', `/v1/workloads/${id}`);
    await fleet.untilState('acme', id, 'deleted');
    assert.deepEqual((await move()).body, { machine: 'm1', region: 'attic' });
    const refused = await fleet.ask('acme', 'PUT', '/v1/machines/m1/region', { region: 'local' });
    assert.equal(refused.body.error?.code, 'forbidden');
  }));
