/**
 * Metrics as Prometheus reads them.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { parseExposition } from '../../test/lib/exposition.ts';
import { createMetrics } from './metrics.ts';

test('counters, histograms and readings are text of the format', () => {
  const metrics = createMetrics(10);
  const asked = metrics.counter('asked_total', 'How often.', ['who', 'how']);
  asked.add(['ada', 'well']);
  asked.add(['ada', 'well'], 2);
  const took = metrics.histogram({ name: 'took', help: 'Long?', labels: [], bounds: [0.1, 1] });
  for (const value of [0.1, 0.5, 7]) took.observe([], value);
  metrics.read('gauge', 'here', 'Now.', () => [{ labels: { at: 'desk' }, value: 1.5 }]);
  assert.equal(
    metrics.text(),
    [
      '# HELP asked_total How often.',
      '# TYPE asked_total counter',
      'asked_total{who="ada",how="well"} 3',
      '# HELP took Long?',
      '# TYPE took histogram',
      'took_bucket{le="0.1"} 1',
      'took_bucket{le="1"} 2',
      'took_bucket{le="+Inf"} 3',
      'took_sum 7.6',
      'took_count 3',
      '# HELP here Now.',
      '# TYPE here gauge',
      'here{at="desk"} 1.5\n',
    ].join('\n'),
  );
  parseExposition(metrics.text());
});

test('whatever a label is, it is read back, and its series are bounded', () => {
  const value = fc.string({ unit: 'binary', maxLength: 12 });
  const steps = fc.array(fc.tuple(value, value, fc.nat(100)), { maxLength: 40 });
  fc.assert(
    fc.property(steps, (all) => {
      const metrics = createMetrics(8);
      const counter = metrics.counter('a_total', 'A\nhelp \\ text.', ['one', 'two']);
      const took = metrics.histogram({ name: 'b', help: 'B.', labels: ['one'], bounds: [1, 9] });
      for (const [one, two, amount] of all) {
        counter.add([one, two], amount);
        took.observe([one], amount);
      }
      const read = parseExposition(metrics.text());
      const samples = read.get('a_total')?.samples ?? [];
      assert.ok(samples.length <= 9, 'eight, and the others');
      const sum = samples.reduce((total, sample) => total + sample.value, 0);
      assert.equal(
        sum,
        all.reduce((total, [, , amount]) => total + amount, 0),
      );
      for (const { labels } of samples) {
        const known = all.some(([one, two]) => one === labels.one && two === labels.two);
        assert.ok(known || (labels.one === 'other' && labels.two === 'other'));
      }
    }),
    { seed: 3 },
  );
});
