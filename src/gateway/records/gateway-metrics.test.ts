/**
 * What the gateway tells Prometheus.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseExposition, type Sample } from '../../../test/lib/exposition.ts';
import { requestRecord } from '../../../test/lib/request-records.ts';
import { createMetrics } from '../../lib/metrics.ts';
import { createGatewayMetrics } from './gateway-metrics.ts';

function rig(most_series = 100) {
  const metrics = createMetrics(most_series);
  const add = createGatewayMetrics(metrics);
  const read = (name: string): Sample[] =>
    parseExposition(metrics.text()).get(`einsora_gateway_${name}`)?.samples ?? assert.fail(name);
  return { metrics, add, read };
}

test('a request counts by model, path, outcome, code and class, with its tokens', () => {
  const { add, read } = rig();
  add(requestRecord());
  const failed = { outcome: 'refused', code: 'engine_cut', attempts: 3, first_token_ms: null };
  add(requestRecord({ ...failed, outcome: 'refused' }));
  assert.deepEqual(
    read('requests_total').map(({ labels, value }) => [...Object.values(labels), value].join(' ')),
    ['smol chat answered  cpu-1 1', 'smol chat refused engine_cut cpu-1 1'],
  );
  const tokens = read('tokens_total').map(({ labels, value }) => `${labels.kind} ${value}`);
  assert.deepEqual(tokens, ['prompt 14', 'completion 10', 'cached 4']);
  assert.equal(read('attempts_total')[0]?.value, 4);
  assert.equal(read('failovers_total')[0]?.value, 2);
  const firsts = read('first_token_seconds').find(({ name }) => name.endsWith('_count'));
  assert.equal(firsts?.value, 1);
  // Five tokens, the first after 40 ms and the last after 90.
  const rate = read('tokens_per_second').find(({ name }) => name.endsWith('_sum'));
  assert.equal(rate?.value, 80);
});

test('what clients make up is no label, whatever it is, and no key or user is one', () => {
  const { add, metrics } = rig();
  for (let one = 0; one < 500; one += 1) {
    const model = `made-up-${one}`;
    add(requestRecord({ workload_id: null, placed_class: null, model, outcome: 'refused' }));
  }
  const text = metrics.text();
  parseExposition(text);
  for (const word of ['made-up', 'k1', 'u1', 't1']) assert.equal(text.includes(word), false, word);
});

test('codes of engines without end are other ones in the end', () => {
  const { add, read } = rig(20);
  for (let one = 0; one < 500; one += 1) add(requestRecord({ code: `code "${one}"\n` }));
  const samples = read('requests_total');
  assert.equal(samples.length, 21);
  assert.equal(samples.find(({ labels }) => labels.code === 'other')?.value, 480);
});
