import assert from 'node:assert/strict';
import { test } from 'node:test';
import { plan } from '../../test/lib/fake-records.ts';
import { planLines } from './plan-view.ts';

test('a plan says what was asked with its defaults, what was chosen, and why not the rest', () => {
  assert.deepEqual(planLines(plan), [
    'Asked: one endpoint',
    '  name         smollm2-135m (default)',
    '  model        smollm2-135m',
    '  accelerator  any',
    '  class        the smallest that fits (default)',
    '  region       local (default)',
    '  cpu          1 (default)',
    '  memory       2 GiB (default)',
    'Chosen:',
    '  machine    box1',
    '  class      cpu-1c-2g',
    '  driver     linux-native',
    '  isolation  weak',
    '  tier       trusted',
    '  host sees  everything: files, memory, prompts and answers',
    'Machines:',
    '  MACHINE  BY                  ANSWER',
    '  box1     linux-native, weak  chosen',
    '  box2     -                   box2 has no apple accelerator. (einsora doctor)',
    'Other classes:',
    '  cpu-8c-32g  larger than needed',
  ]);
});

test('a plan that chooses nothing says why it will wait', () => {
  const reason = { code: 'all_matching_busy', message: 'All are busy.', fix: 'einsora ls' };
  const lines = planLines({ ...plan, chosen: null, host_sees: null, reason });
  const at = lines.indexOf('Chosen: nothing yet, so it will wait');
  assert.deepEqual(lines.slice(at + 1, at + 3), ['  why  All are busy.', '  fix  einsora ls']);
});

test('a plan over a quota says that a launch would be refused', () => {
  const refused = { code: 'quota_exceeded', message: 'Over it.', fix: 'einsora ls' };
  const lines = planLines({ ...plan, refused });
  const at = lines.indexOf('Refused:');
  assert.deepEqual(lines.slice(at + 1, at + 3), ['  why  Over it.', '  fix  einsora ls']);
  assert.ok(lines.includes('Would be chosen:'));
  const nowhere = planLines({ ...plan, refused, chosen: null }).join('\n');
  assert.doesNotMatch(nowhere, /it will wait/);
});

test('a plan says how much is fetched, and whether there is room for it', () => {
  const download = {
    ...{ source: 'hf://o/r@0/m.gguf', revision: '0', bytes: 4_100_000_000, file_count: 1 },
    ...{ free_bytes: 12_300_000_000, is_here: false },
  };
  const line = (more: Partial<typeof download> = {}) =>
    planLines({ ...plan, download: { ...download, ...more } }).find((one) => /^To fetch/.test(one));
  assert.equal(line(), 'To fetch: 4.1 GB; 12.3 GB free on box1');
  assert.equal(
    line({ file_count: 3, free_bytes: 10 }),
    'To fetch: 4.1 GB in 3 files; 10 B free on box1 (not enough)',
  );
  assert.equal(line({ is_here: true }), 'To fetch: nothing, the machine has it');
});

test('a plan says which GPUs it asks for, which it would get, and with whom it shares', () => {
  const asked = {
    ...plan.asked,
    ...{ gpu_count: 1, gpu_memory_bytes: 40 * 2 ** 30, gpu_model: 'l40s', share_device: true },
  };
  const chosen = plan.chosen && { ...plan.chosen, devices: ['GPU-1'] };
  const lines = planLines({ ...plan, asked, chosen, shares_with: ['chat'] });
  const shared = 'shared with workloads of yours that say so too';
  assert.ok(lines.includes(`  gpus         1, l40s with 40 GiB or more, ${shared}`));
  assert.ok(lines.includes('  gpus       GPU-1 (shared with chat)'));
});

test('a plan that waits says in which place, and after whom', () => {
  const line = (queue: typeof plan.queue) => planLines({ ...plan, chosen: null, queue }).at(-1);
  assert.equal(line(plan.queue), 'Queue: it would be next');
  const queue = { place: 11, own: ['chat', 'lab'], own_more: 1, others: 7 };
  assert.equal(line(queue), 'Queue: place 11, after chat, lab, 1 more of yours, 7 of others');
});
