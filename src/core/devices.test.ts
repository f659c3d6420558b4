/**
 * Which GPUs a workload gets: exact ones, the smallest that do, never somebody else's; and why not.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  chooseDevices,
  type DeviceAsk,
  type DeviceView,
  deviceDetails,
  deviceRefusal,
  devicesToReserve,
  deviceWaste,
  lackOfDevices,
  sharers_limit,
} from './devices.ts';
import { type Reason, reasons } from './reasons.ts';

const gib = 2 ** 30;

function gpu(uuid: string, memory_gib: number, over: Partial<DeviceView> = {}): DeviceView {
  return {
    ...{ uuid, model: 'NVIDIA L40S', memory_bytes: memory_gib * gib, usable_by: ['docker'] },
    ...{ is_part: false, only_all: false, held: null, reserved: false, holders: [] },
    ...over,
  };
}

const asked = (gpu_count: number, over: Partial<DeviceAsk> = {}): DeviceAsk => ({
  ...{ gpu_count, gpu_class: 'nvidia-any', ...over },
});
const chosen = (ask: DeviceAsk, devices: DeviceView[], creator = 'ada') =>
  chooseDevices(ask, 'docker', devices, creator)?.map(({ uuid }) => uuid) ?? null;
const alone = { sharer: null, count: 1 };

test('the smallest that fits is taken, of equal ones the first by UUID', () => {
  const devices = [gpu('c', 48), gpu('b', 24), gpu('a', 24), gpu('d', 80)];
  assert.deepEqual(chosen(asked(1), devices), ['a']);
  assert.deepEqual(chosen(asked(1, { gpu_memory_bytes: 40 * gib }), devices), ['c']);
  assert.deepEqual(chosen(asked(1, { gpu_memory_bytes: 81 * gib }), devices), null);
  assert.deepEqual(chosen(asked(0), devices), []);
});

test('several are of one model, whole, and the group that wastes least', () => {
  const h100 = { model: 'NVIDIA H100 80GB HBM3' };
  const devices = [gpu('a', 48), gpu('h1', 80, h100), gpu('h2', 80, h100), gpu('b', 48)];
  assert.deepEqual(chosen(asked(2), devices), ['a', 'b']);
  assert.deepEqual(chosen(asked(2, { gpu_model: 'h100' }), devices), ['h1', 'h2']);
  assert.equal(chosen(asked(3), devices), null, 'two and two are not three');
  const parts = [gpu('m1', 10, { is_part: true }), gpu('m2', 10, { is_part: true })];
  assert.deepEqual(chosen(asked(1), parts), ['m1']);
  assert.equal(chosen(asked(2), parts), null);
});

test('what is held or kept free for another is not taken, nor what no driver gives', () => {
  for (const over of [
    { held: alone },
    { reserved: true },
    { usable_by: ['libvirt'] as const },
    { usable_by: [] },
  ]) {
    assert.equal(chosen(asked(1), [gpu('a', 24, over)]), null, JSON.stringify(over));
  }
  assert.deepEqual(chooseDevices(asked(1), 'sim', [gpu('a', 24)], '')?.length, 1);
});

test('who shares joins their own, the emptiest first, and nobody else', () => {
  const share = asked(1, { share_device: true });
  const held = (sharer: string | null, count: number, reserved = false) =>
    ({ held: { sharer, count }, reserved }) satisfies Partial<DeviceView>;
  const devices = [gpu('a', 24, held('ada', 3)), gpu('b', 48, held('ada', 1)), gpu('c', 16)];
  assert.deepEqual(chosen(share, devices), ['b']);
  assert.deepEqual(chosen(share, devices, 'eve'), ['c']);
  assert.deepEqual(chosen(asked(1), devices), ['c'], 'who did not say so is alone');
  assert.deepEqual(chosen(share, [gpu('a', 24, held('ada', sharers_limit))]), null);
  assert.equal(chosen(share, [gpu('a', 24, held('ada', 1, true))]), null, 'kept for the head');
  assert.equal(chosen(share, [gpu('a', 24, held(null, 1))]), null);
  assert.equal(chosen(share, [gpu('a', 24, held('ada', 1))], ''), null, 'nobody is no creator');
  assert.equal(deviceWaste(share, [gpu('a', 24, held('ada', 1))]), 0);
});

test('a machine that gives all or none gives all', () => {
  const wsl = [gpu('a', 24, { only_all: true }), gpu('b', 24, { only_all: true })];
  assert.equal(chosen(asked(1), wsl), null);
  assert.deepEqual(chosen(asked(2), wsl), ['a', 'b']);
  assert.equal(deviceRefusal(asked(1), 'docker', wsl), 'gpus_only_together');
  const [first, second] = wsl;
  assert.ok(first && second);
  assert.equal(chosen(asked(2), [first, { ...second, held: alone }]), null);
  assert.deepEqual(chosen(asked(1), [first]), ['a']);
});

test('each refusal has a sentence with the figures', () => {
  const devices = [gpu('a', 24, { held: alone, holders: ['mine'] }), gpu('b', 24)];
  const cases: [DeviceAsk, string | null, RegExp][] = [
    [asked(3), 'too_few_gpus', /desk has 2 usable GPUs \(2 x NVIDIA L40S with 24 GiB\).* 3 GPUs/],
    [
      asked(1, { gpu_memory_bytes: 40 * gib }),
      'gpus_too_small',
      /too small \(2 x NVIDIA L40S with 24 GiB\): 1 GPU of 40 GiB or more asked for/,
    ],
    [asked(1, { gpu_model: 'h100' }), 'gpus_of_other_model', /other GPUs .*: 1 GPU \(h100\)/],
    [asked(2), null, /desk has 1 of 2 such GPUs free; asked for: 2 GPUs; the rest is held by mine/],
  ];
  for (const [ask, code, expected] of cases) {
    assert.equal(deviceRefusal(ask, 'docker', devices), code);
    const details: Record<string, unknown> = {
      ...{ machine: 'desk', ...deviceDetails(ask, 'docker', devices) },
    };
    const { sentence }: Reason = reasons[(code ?? 'gpus_busy') as keyof typeof reasons];
    assert.match(
      sentence.replace(/\{(\w+)\}/g, (_, name: string) => String(details[name])),
      expected,
    );
  }
  assert.equal(deviceRefusal(asked(0), 'docker', []), null);
  assert.equal(deviceRefusal(asked(1), 'docker', []), 'too_few_gpus');
});

test('who has waited long has kept what is free, and then what is held', () => {
  const devices = [gpu('a', 24, { held: alone }), gpu('b', 48), gpu('c', 48, { reserved: true })];
  const kept = (ask: DeviceAsk) =>
    devicesToReserve(ask, 'docker', devices)?.map(({ uuid }) => uuid) ?? null;
  assert.deepEqual(kept(asked(1)), ['b']);
  assert.deepEqual(kept(asked(2)), ['b', 'a']);
  assert.equal(kept(asked(3)), null, 'what is kept for one is not kept for two');
  assert.equal(lackOfDevices(asked(2), 'docker', devices), 0.5);
  assert.equal(lackOfDevices(asked(0), 'docker', devices), 0);
});

const anyDevice: fc.Arbitrary<DeviceView> = fc.record({
  uuid: fc.uuid(),
  model: fc.constantFrom('NVIDIA L40S', 'NVIDIA H100 PCIe'),
  memory_bytes: fc.integer({ min: 1, max: 80 }).map((count) => count * gib),
  usable_by: fc.constantFrom([], ['docker'] as const, ['libvirt'] as const),
  is_part: fc.boolean(),
  only_all: fc.boolean(),
  held: fc.constantFrom(
    null,
    null,
    alone,
    { sharer: 'ada', count: 1 },
    { sharer: 'eve', count: 1 },
  ),
  reserved: fc.boolean(),
  holders: fc.constant([]),
});
const anyAsk: fc.Arbitrary<DeviceAsk> = fc.record({
  gpu_count: fc.nat(3),
  gpu_class: fc.constant(null),
  gpu_memory_bytes: fc.integer({ min: 0, max: 80 }).map((count) => count * gib),
  gpu_model: fc.constantFrom(null, 'h100'),
  share_device: fc.boolean(),
});

test('whatever there is: as many as asked, each of which suits, and none of somebody else', () => {
  const all = fc.property(anyAsk, fc.array(anyDevice, { maxLength: 6 }), (ask, devices) => {
    const taken = chooseDevices(ask, 'docker', devices, 'ada');
    if (taken === null) return;
    assert.equal(taken.length, ask.gpu_count);
    assert.equal(new Set(taken).size, taken.length);
    assert.equal(deviceRefusal(ask, 'docker', devices), null, 'it was not said to be impossible');
    for (const one of taken) {
      assert.ok(one.usable_by.some((driver) => driver === 'docker') && !one.reserved);
      assert.ok(one.memory_bytes >= (ask.gpu_memory_bytes ?? 0));
      const is_own = ask.share_device && one.held?.sharer === 'ada';
      assert.ok(one.held === null || is_own);
      if (taken.length > 1) assert.ok(one.model === taken[0]?.model && !one.is_part);
    }
  });
  fc.assert(all, { seed: 52, numRuns: 2000 });
});
