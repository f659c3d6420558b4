/**
 * What may stand in for what was asked, and how that is said.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { endpointSpec, gib } from '../../test/lib/rig.ts';
import { onlyMachine } from './ask.ts';
import {
  changesOf,
  fallbackHeader,
  fallbackText,
  isDue,
  parseStep,
  stepSpec,
  takenDetails,
  takenOf,
  type WaitingFallback,
} from './fallback.ts';
import { sentenceOf } from './reasons.ts';

const asked = endpointSpec({
  ...{ gpu_class: 'l40s-48gb', accelerator: 'nvidia', gpu_count: 1, fallback_after_ms: 600_000 },
  fallback: [
    { step: 'class:rtx-3090-24gb', set: { gpu_class: 'rtx-3090-24gb' } },
    {
      step: 'cpu',
      set: { gpu_class: 'cpu-4c-8g', accelerator: 'cpu', gpu_count: 0, memory_bytes: 8 * gib },
    },
    { step: 'region:north', set: { region: 'north' } },
  ],
});

test('a step is a sort with a name, or one of the sorts that have none', () => {
  assert.deepEqual(parseStep('class:l40s-48gb'), { sort: 'class', name: 'l40s-48gb' });
  assert.deepEqual(parseStep('cpu'), { sort: 'cpu', name: '' });
  assert.deepEqual(parseStep('model:hf://a/b:Q4'), { sort: 'model', name: 'hf://a/b:Q4' });
  for (const text of ['', 'cpu:2', 'class', 'class:', 'machines:m1', 'CPU', 'replica:1']) {
    assert.equal(parseStep(text), null, text);
  }
});

test('a step changes what it says and nothing else; beyond the list there is none', () => {
  const cpu = stepSpec(asked, 2);
  assert.equal(cpu?.gpu_class, 'cpu-4c-8g');
  assert.equal(cpu?.gpu_count, 0);
  assert.equal(cpu?.model, asked.model);
  assert.equal(cpu?.kind, asked.kind);
  for (const number of [-1, 0, 4, 1.5]) assert.equal(stepSpec(asked, number), null);
  assert.deepEqual(changesOf(asked, { ...asked, region: 'north', name: 'other' }), {
    region: 'north',
  });
});

test('what admission reads has an ask for each step, and which of them go elsewhere', () => {
  const { after_ms, steps } = JSON.parse(fallbackText(asked)) as WaitingFallback;
  assert.equal(after_ms, 600_000);
  assert.deepEqual(
    steps.map(({ number, moves }) => [number, moves]),
    [
      [1, false],
      [2, false],
      [3, true],
    ],
  );
  assert.match(steps[1]?.ask ?? '', /"gpu_class":"cpu-4c-8g"/);
  assert.equal(fallbackText(endpointSpec()), '', 'nothing where nobody asked for any');
  const replica = endpointSpec({ fallback: [{ step: 'replica', set: {} }] });
  assert.equal(fallbackText(replica), '', 'another replica is no placement');
});

test('without a wait it is due at once, whatever the clock did', () => {
  assert.equal(isDue(1000, 500, 1499), false);
  assert.equal(isDue(1000, 500, 1500), true);
  assert.equal(isDue(1000, 0, 10), true, 'the wall clock stepped back');
});

test('the note and the header name what was asked and what stands in', () => {
  const taken = takenOf(asked, 2, 'cpu-4c-8g', 600_000);
  assert.ok(taken);
  assert.equal(
    sentenceOf(
      'placed_by_fallback',
      takenDetails(taken, { machine_name: 'desk', placed_class: 'cpu-4c-8g' }),
    ),
    'It asked for l40s-48gb and waited 10m 0s: placed on desk as cpu-4c-8g by fallback 2 of 3 (cpu).',
  );
  assert.equal(fallbackHeader(taken), 'asked=l40s-48gb; placed=cpu-4c-8g; reason=waited');
  assert.equal(fallbackHeader(null), 'none');
  const region = takenOf(asked, 3, 'l40s-48gb', 600_000);
  assert.deepEqual([region?.asked, region?.placed], ['region local', 'region north']);
  const machine = { id: 'id', name: 'm1' };
  const pinned = endpointSpec({
    ...{ machine, fallback: [{ step: 'machine:m 2', set: { machine: { id: 'x', name: 'm 2' } } }] },
  });
  const moved = takenOf(pinned, 1, 'cpu-1c-2g', 0);
  assert.equal(fallbackHeader(moved), 'asked=machine_m1; placed=machine_m_2; reason=waited');
  assert.equal(fallbackHeader(moved, false), 'asked=machine; placed=machine; reason=waited');
});

test('the home of a workload goes before the machine that it asked for', () => {
  const pinned = endpointSpec({ machine: { id: 'studio', name: 'studio' } });
  assert.equal(onlyMachine(pinned), 'studio');
  assert.equal(onlyMachine({ ...pinned, home_machine_id: 'attic' }), 'attic');
  assert.equal(onlyMachine(endpointSpec()), null);
});
