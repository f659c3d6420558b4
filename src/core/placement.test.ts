/**
 * Placement: a machine is chosen or refused for one reason, and never promised what it lacks.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { builtin_catalog, catalogWith } from './catalog.ts';
import type { DeviceView } from './devices.ts';
import { place, sizeName } from './placement.ts';
import { sentenceOf } from './reasons.ts';
import { freeOf } from './room.ts';
import { type DriverName, driverIsolation, mayRun, maySee, trustLevel } from './trust.ts';
import { type Amounts, type MachineView, no_extras, type WorkloadSpec } from './workload.ts';

const gib = 2 ** 30;
const spec: WorkloadSpec = {
  kind: 'endpoint',
  name: 'chat',
  region: 'local',
  accelerator: null,
  gpu_class: null,
  gpu_count: 0,
  cpu_millis: 1000,
  memory_bytes: 2 * gib,
  disk_bytes: 0,
  model: 'smollm2-135m',
  model_params: {},
  ...no_extras,
};
const desk: MachineView = {
  id: 'm1',
  name: 'desk',
  region: 'local',
  owner_tenant_id: 'mine',
  invited_tenant_ids: [],
  sharing: 'private',
  online: true,
  last_seen_at: 0,
  accelerators: ['cpu'],
  drivers: [{ driver: 'linux-native', ready: true, why: null, kinds: ['endpoint'] }],
  offered: { cpu_millis: 4000, memory_bytes: 8 * gib, disk_bytes: 100 * gib },
  held: { cpu_millis: 0, memory_bytes: 0, disk_bytes: 0 },
  reserved: { cpu_millis: 0, memory_bytes: 0, disk_bytes: 0 },
  holders: [],
};

const amounts = (most: number): fc.Arbitrary<Amounts> =>
  fc.record({
    cpu_millis: fc.nat(most * 1000),
    memory_bytes: fc.nat(most).map((count) => count * gib),
    disk_bytes: fc.nat(most).map((count) => count * gib),
  });
const anyMachine = fc.record({
  id: fc.string({ minLength: 1, maxLength: 4 }),
  name: fc.constant('a machine'),
  region: fc.constantFrom('local', 'elsewhere'),
  owner_tenant_id: fc.constantFrom('mine', 'yours'),
  invited_tenant_ids: fc.subarray(['mine']),
  sharing: fc.constantFrom('private', 'invite-only', 'community'),
  online: fc.boolean(),
  last_seen_at: fc.option(fc.nat(10 ** 12), { nil: null }),
  accelerators: fc.subarray(['cpu', 'nvidia']),
  drivers: fc.array(
    fc.record({
      driver: fc.constantFrom(...(Object.keys(driverIsolation) as DriverName[])),
      ready: fc.boolean(),
      why: fc.option(fc.constant('it is not ready'), { nil: null }),
      kinds: fc.subarray(['vm', 'endpoint'] as const).map((kinds) => [...kinds]),
    }),
    { maxLength: 3 },
  ),
  offered: amounts(8),
  held: amounts(8),
  reserved: fc.oneof(fc.constant(desk.reserved), amounts(2)),
  holders: fc.constant(['somebody']),
}) satisfies fc.Arbitrary<MachineView>;
const anyMachines = fc.uniqueArray(anyMachine, { selector: (one) => one.id, maxLength: 6 });
const anySpec: fc.Arbitrary<WorkloadSpec> = fc
  .record({ asked: amounts(4), accelerator: fc.constantFrom(null, 'cpu', 'nvidia') })
  .map(({ asked, accelerator }) => ({ ...spec, ...asked, accelerator }));

function always(
  check: (decision: ReturnType<typeof place>, asked: WorkloadSpec, machines: MachineView[]) => void,
): void {
  fc.assert(
    fc.property(anySpec, anyMachines, (asked, machines) => {
      check(place(asked, 'mine', machines), asked, machines);
    }),
    { seed: 8, numRuns: 1000 },
  );
}

test('each machine is refused at most once, and the chosen one never', () => {
  always(({ refusals, chosen }) => {
    const ids = refusals.map((refusal) => refusal.machine_id);
    assert.equal(new Set(ids).size, ids.length);
    assert.equal(chosen !== null && ids.includes(chosen.machine_id), false);
  });
});

/** What is said of all together, by what one of them said: the first that any of them did. */
const waitsFor = [
  ['machine_busy', 'all_matching_busy'],
  ['reserved_for_head', 'all_matching_reserved'],
  ['machine_offline', 'all_matching_offline'],
  ['driver_not_ready', 'no_driver_ready'],
  ['isolation_not_allowed', 'no_machine_trusted'],
] as const;

test('where nothing is chosen, every machine that one may know of says why not', () => {
  always(({ refusals, chosen, code }, _asked, machines) => {
    if (chosen !== null) return assert.equal(code, null);
    const known = machines.filter((one) => maySee(trustLevel('mine', one), one));
    assert.equal(refusals.length, known.length);
    const said = refusals.map((refusal) => refusal.code);
    const closest = waitsFor.find(([refusal]) => said.some((one) => one === refusal))?.[1];
    const is_elsewhere = said.every((one) => one === 'other_region');
    const none = is_elsewhere ? 'no_machine_in_region' : 'no_machine_matches';
    if (known.length === 1) return assert.equal(code, said[0]);
    assert.equal(code, known.length === 0 ? 'no_machine_shared' : (closest ?? none));
  });
});

test('what is chosen fits into what is free, here, now, by a driver that may', () => {
  always(({ chosen }, asked, machines) => {
    if (chosen === null) return;
    const machine = machines.find((one) => one.id === chosen.machine_id);
    assert.ok(machine);
    const free = freeOf(machine);
    for (const name of ['cpu_millis', 'memory_bytes', 'disk_bytes'] as const) {
      assert.ok(asked[name] <= free[name], name);
      assert.ok(asked[name] + machine.held[name] <= machine.offered[name] || asked[name] === 0);
    }
    assert.equal(machine.online, true);
    assert.equal(machine.region, asked.region);
    const driver = machine.drivers.find(
      (one) => one.driver === chosen.driver && one.ready && one.kinds.includes('endpoint'),
    );
    assert.ok(driver);
    assert.ok(mayRun(trustLevel('mine', machine), chosen.driver, machine.sharing));
    assert.equal(chosen.isolation, driverIsolation[chosen.driver]);
  });
});

test('the order in which machines are listed decides nothing', () => {
  always((decision, asked, machines) => {
    assert.deepEqual(place(asked, 'mine', [...machines].reverse()), decision);
  });
});

test('a decision changes nothing of what it looked at', () => {
  fc.assert(
    fc.property(anySpec, anyMachines, (asked, machines) => {
      const before = JSON.stringify([asked, machines]);
      place(asked, 'mine', machines);
      assert.equal(JSON.stringify([asked, machines]), before);
    }),
    { seed: 9 },
  );
});

test('the machine with the least left over is chosen, then the lower id', () => {
  const small = { ...desk, id: 'm2', offered: { ...desk.offered, memory_bytes: 2 * gib } };
  assert.equal(place(spec, 'mine', [desk, small]).chosen?.machine_id, 'm2');
  assert.equal(place(spec, 'mine', [{ ...desk, id: 'm0' }, desk]).chosen?.machine_id, 'm0');
});

const refusedFor: [string, Partial<MachineView>, Partial<WorkloadSpec>][] = [
  ['other_region', { region: 'elsewhere' }, {}],
  ['machine_starting', { drivers: [] }, {}],
  ['driver_missing', {}, { kind: 'vm' }],
  ['isolation_not_allowed', { owner_tenant_id: 'yours', sharing: 'community' }, {}],
  ['accelerator_missing', {}, { accelerator: 'nvidia' }],
  ['driver_not_ready', { drivers: [{ ...first(desk), ready: false, why: 'no sandbox' }] }, {}],
  ['cpu_short', {}, { cpu_millis: 8000, memory_bytes: 16 * gib }],
  ['memory_short', {}, { memory_bytes: 16 * gib }],
  ['disk_short', {}, { disk_bytes: 200 * gib }],
  ['machine_offline', { online: false }, {}],
  ['machine_busy', { held: { ...desk.offered } }, {}],
  ['reserved_for_head', { reserved: { ...desk.offered } }, {}],
];
for (const [code, machine, asked] of refusedFor) {
  test(`a machine is refused as ${code}`, () => {
    const { refusals } = place({ ...spec, ...asked }, 'mine', [{ ...desk, ...machine }]);
    assert.deepEqual(
      refusals.map((refusal) => refusal.code),
      [code],
    );
  });
}

const both: MachineView = {
  ...desk,
  drivers: [
    { driver: 'docker', ready: true, why: null, kinds: ['endpoint', 'notebook', 'instance'] },
    { driver: 'linux-native', ready: true, why: null, kinds: ['endpoint', 'notebook'] },
  ],
};
const [docker] = both.drivers;
const card: DeviceView = {
  ...{ uuid: 'GPU-1', model: 'NVIDIA L4', memory_bytes: 24 * gib, usable_by: ['docker'] },
  ...{ is_part: false, only_all: false, held: null, reserved: false, holders: [] },
};
const chosenFor = (asked: Partial<WorkloadSpec>, machine = both) =>
  place({ ...spec, model: null, ...asked }, 'mine', [machine]).chosen?.driver ?? null;

test('among the drivers of a machine, the one that suits the image is taken', () => {
  assert.equal(chosenFor({ kind: 'notebook' }), 'linux-native');
  assert.equal(chosenFor({ kind: 'notebook', image_id: 'someone/lab:2' }), 'docker');
  assert.equal(chosenFor({ kind: 'instance', image_id: 'debian' }), 'docker');
  assert.equal(chosenFor({ kind: 'endpoint' }), 'linux-native');
  const gpu = { ...both, accelerators: ['cpu', 'nvidia'], devices: [card] };
  const asked = { accelerator: 'nvidia', gpu_count: 1 };
  assert.equal(chosenFor({ kind: 'notebook', ...asked }, gpu), 'docker');
  assert.equal(chosenFor({ kind: 'endpoint', image_id: 'einsora-vllm', ...asked }, gpu), 'docker');
  assert.equal(chosenFor({ kind: 'endpoint', image_id: 'einsora-vllm' }), null);
});

test('a driver that is not ready leaves the image to the next one', () => {
  const drivers = both.drivers.map((one) => ({ ...one, ready: one.driver === 'docker' }));
  assert.equal(chosenFor({ kind: 'notebook' }, { ...both, drivers }), 'docker');
});

test('where no driver runs the form of an image, the refusal says what that needs', () => {
  const drivers = [{ ...first(desk), kinds: ['endpoint' as const, 'instance' as const] }];
  const machine = { ...desk, drivers };
  const asked = { ...spec, kind: 'instance' as const, image_id: 'someone/tool:1', model: null };
  const [refusal] = place(asked, 'mine', [machine]).refusals;
  assert.equal(
    refusal && sentenceOf(refusal.code, refusal.details),
    'desk cannot run the image someone/tool:1: that needs a container engine such as Docker.',
  );
  const [missing] = place({ ...spec, image_id: 'einsora-vllm' }, 'mine', [both]).refusals;
  assert.equal(
    missing && sentenceOf(missing.code, missing.details),
    'desk has no nvidia accelerator.',
  );
  const not_ready = { ...docker, ready: false, why: 'its engine does not answer' };
  const waits = { ...both, drivers: [not_ready as MachineView['drivers'][number]] };
  const [refused] = place(asked, 'mine', [waits]).refusals;
  assert.equal(
    refused && sentenceOf(refused.code, refused.details),
    'desk: its engine does not answer',
  );
});

test('why nothing can be capped is said once', () => {
  const why = 'memory cannot be capped: the folder cannot be written';
  const drivers = [{ ...first(desk), ready: false, why, why_code: 'cap_missing' as const }];
  const [refusal] = place(spec, 'mine', [{ ...desk, drivers }]).refusals;
  assert.equal(
    refusal && sentenceOf(refusal.code, refusal.details),
    'Memory cannot be capped on this machine: the folder cannot be written.',
  );
});

const unknownTo: [string, Partial<MachineView>][] = [
  ['of another tenant, private', { owner_tenant_id: 'yours' }],
  [
    'of another tenant, private, though once invited',
    { owner_tenant_id: 'yours', invited_tenant_ids: ['mine'] },
  ],
  ['invite-only without an invitation', { owner_tenant_id: 'yours', sharing: 'invite-only' }],
];
for (const [what, machine] of unknownTo) {
  test(`a machine ${what} does not exist: neither chosen, named nor counted`, () => {
    for (const online of [true, false]) {
      const drivers = [{ ...first(desk), driver: 'macos-container' as const }];
      const hidden = { ...desk, ...machine, online, drivers, name: 'secret' };
      const alone = place(spec, 'mine', [hidden]);
      const { chosen, refusals, code, details } = alone;
      assert.deepEqual([chosen, refusals, code], [null, [], 'no_machine_shared']);
      assert.equal(details.machines, 0);
      const small = { ...desk, id: 'm2', offered: { ...desk.offered, cpu_millis: 1 } };
      assert.deepEqual(place(spec, 'mine', [small, hidden]), place(spec, 'mine', [small]));
    }
  });
}

test('a machine whose owner lowered the offer has nothing free, not less than nothing', () => {
  const lowered = { ...desk, held: { ...desk.offered, memory_bytes: 99 * gib } };
  assert.deepEqual(Object.values(freeOf(lowered)), [0, 0, 0]);
});

const saidFor: [string, Partial<MachineView>, Partial<WorkloadSpec>, string][] = [
  [
    'too little memory',
    { held: { ...desk.held, memory_bytes: 2 * gib } },
    { memory_bytes: 16 * gib },
    'desk offers 8 GiB (6 GiB free), less than the 16 GiB asked for.',
  ],
  [
    'no room now',
    { held: { ...desk.offered }, holders: ['chat'] },
    {},
    'desk has 0 CPU and 0 MiB free, and 1 CPU and 2 GiB are asked for; the rest is held by chat.',
  ],
  [
    'no disk left',
    { held: { ...desk.held, disk_bytes: 100 * gib } },
    { disk_bytes: 10 ** 9 },
    'desk has 4 CPU, 8 GiB and 0 B of disk free, and 1 CPU, 2 GiB and 1.0 GB of disk are asked for; the rest is held by others.',
  ],
  [
    'room that is kept',
    { reserved: { ...desk.offered }, reserved_for: { gpu_class: 'cpu-8c', waited_ms: 720_000 } },
    {},
    'desk has room, and keeps it for the first of cpu-8c, which has waited 12m 0s.',
  ],
  [
    'weak isolation',
    { owner_tenant_id: 'yours', sharing: 'community' },
    {},
    'desk could only run this by linux-native, with weak isolation, which is for its owner alone.',
  ],
  ['another region', { region: 'attic' }, {}, 'desk is in region attic, not in local.'],
];
for (const [what, machine, asked, sentence] of saidFor) {
  test(`of ${what} the refusal says how much`, () => {
    const [refusal] = place({ ...spec, ...asked }, 'mine', [{ ...desk, ...machine }]).refusals;
    assert.equal(refusal && sentenceOf(refusal.code, refusal.details), sentence);
  });
}

test('where several refuse, it is counted what they said', () => {
  const small = { ...desk.offered, memory_bytes: gib };
  const machines = [
    { ...desk, held: { ...desk.offered } },
    { ...desk, id: 'm2', offered: small },
    { ...desk, id: 'm3', offered: small },
    { ...desk, id: 'm4', online: false },
  ];
  const { code, details } = place(spec, 'mine', machines);
  assert.equal(
    code && sentenceOf(code, details),
    'Every machine that could run this is busy: 2 with too little memory, 1 busy, 1 offline.',
  );
});

const homed = { ...spec, kind: 'notebook' as const, disk_bytes: gib, home_machine_id: 'm1' };
const able: MachineView = { ...both, id: 'm1' };
const spare: MachineView = { ...both, id: 'm0', name: 'spare' };

test('what has a home runs there, however much less waste another machine leaves', () => {
  const { chosen, refusals } = place(homed, 'mine', [spare, able]);
  assert.equal(chosen?.machine_id, 'm1');
  assert.deepEqual(
    refusals.map(({ machine_name, code }) => [machine_name, code]),
    [['spare', 'home_elsewhere']],
  );
});

const homeSays: [string, MachineView[]][] = [
  ['home_busy', [spare, { ...able, held: { ...able.offered } }]],
  ['home_offline', [spare, { ...able, online: false }]],
  ['home_removed', [spare]],
  ['home_removed', [spare, { ...able, owner_tenant_id: 'yours' }]],
];
for (const [code, machines] of homeSays) {
  test(`what has a home waits for that alone: ${code}`, () => {
    assert.equal(place(homed, 'mine', machines).code, code);
  });
}

test('a class that is not offered in a region is refused there, but for what lives there', () => {
  const [size] = builtin_catalog.classes;
  assert.ok(size);
  const entry = { ...size, regions: ['attic'] };
  const catalog = catalogWith(1, [{ sort: 'class', name: entry.name, entry }]);
  const asked = { ...spec, gpu_class: entry.name };
  const [refusal] = place(asked, 'mine', [desk], '', catalog).refusals;
  assert.equal(refusal?.code, 'class_not_in_region');
  assert.equal(place({ ...homed, gpu_class: entry.name }, 'mine', [able], '', catalog).code, null);
});

test('a size is named by its class where it has one', () => {
  assert.equal(sizeName(spec), 'cpu-1c-2g');
  assert.equal(sizeName({ ...spec, memory_bytes: 3 * gib }), '1 CPU and 3 GiB');
});

function first(machine: MachineView) {
  const [driver] = machine.drivers;
  if (driver === undefined) throw new Error('the machine of this test has a driver');
  return driver;
}
