/**
 * The fleet of made-up machines that other tests stand on.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createFleet } from './lib/fleet.ts';

const endpoint = { kind: 'endpoint', model: 'smollm2-135m', gpu_class: 'cpu-1c-2g' };

test('a fleet places, runs and stops what its tenants launch', async () => {
  const fleet = await createFleet([
    { name: 'rack', as: 'libvirt', sharing: 'community' },
    { name: 'mac', owner: 'ada', as: 'macos-native', region: 'home' },
  ]);
  try {
    const made = await fleet.launch('bob', { ...endpoint, name: 'chat' });
    const there = await fleet.untilState('bob', made.id, 'running');
    assert.equal(there.placement?.machine_name, 'rack');
    assert.equal(there.placement?.isolation, 'strong');
    const own = await fleet.launch('ada', { ...endpoint, name: 'own', region: 'home' });
    const at_home = await fleet.untilState('ada', own.id, 'running');
    assert.equal(at_home.placement?.machine_name, 'mac');
    const notebook = await fleet.launch('bob', { kind: 'notebook', gpu_class: 'cpu-1c-2g' });
    await fleet.untilState('bob', notebook.id, 'running');
    const instance = await fleet.launch('bob', { kind: 'instance', gpu_class: 'cpu-1c-2g' });
    await fleet.untilState('bob', instance.id, 'running');
    await fleet.ask('bob', 'POST', `/v1/workloads/${made.id}/stop`);
    await fleet.untilState('bob', made.id, 'stopped');
  } finally {
    await fleet.close();
  }
});

test('a machine goes through what its plans say, is cut off and heard of again', async () => {
  const fleet = await createFleet([
    { name: 'm1', plans: [{ start_error: 'start_failed' }], plan: { ready_after_ms: 5000 } },
  ]);
  try {
    const made = await fleet.launch('op', { ...endpoint, name: 'chat' });
    const there = await fleet.untilState('op', made.id, 'running');
    assert.equal(there.restarts, 1);
    assert.equal(fleet.machine('m1').started.length, 2);
    fleet.machine('m1').cut();
    await fleet.until(async () => !(await fleet.show('op', made.id)).heard_of, 'silence');
    fleet.machine('m1').heal();
    await fleet.until(async () => (await fleet.show('op', made.id)).heard_of, 'a word');
    assert.equal((await fleet.show('op', made.id)).state, 'running');
    fleet.machine('m1').machine.cpus = 2;
    await fleet.look();
    const { body } = await fleet.ask('op', 'GET', '/v1/machines');
    const [machine] = body.items as { offered: { cpu_millis: number } }[];
    assert.equal(machine?.offered.cpu_millis, 2000);
  } finally {
    await fleet.close();
  }
});

test('an agent of the fleet that begins again finds what runs', async () => {
  const fleet = await createFleet([{ name: 'm1' }]);
  try {
    const made = await fleet.launch('op', { ...endpoint, name: 'chat' });
    await fleet.untilState('op', made.id, 'running');
    await fleet.machine('m1').stopAgent();
    fleet.machine('m1').startAgent();
    await fleet.advance(60_000);
    const there = await fleet.show('op', made.id);
    assert.deepEqual([there.state, there.placement?.run_epoch], ['running', 1]);
  } finally {
    await fleet.close();
  }
});

test('GPUs that are made up are given to one workload each', async () => {
  const gpus = [{ model: 'NVIDIA L40S', memory_gib: 48 }];
  const fleet = await createFleet([{ name: 'g1', as: 'docker', gpus, memory_gib: 256, cpus: 64 }]);
  try {
    const asked = { kind: 'instance', gpu_class: 'l40s-48gb' };
    const first = await fleet.launch('op', { ...asked, name: 'one' });
    const there = await fleet.untilState('op', first.id, 'running');
    assert.deepEqual(
      there.gpus.map(({ uuid }) => uuid),
      ['GPU-sim-g1-0'],
    );
    const second = await fleet.launch('op', { ...asked, name: 'two' });
    await fleet.untilState('op', second.id, 'queued');
    await fleet.ask('op', 'POST', `/v1/workloads/${first.id}/stop`);
    await fleet.untilState('op', second.id, 'running');
  } finally {
    await fleet.close();
  }
});
