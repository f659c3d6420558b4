/**
 * Names of runs: what is written is read back, and nothing else is.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { makeId } from './ids.ts';
import { parseRunName, runName } from './run.ts';

const run = fc.record(
  {
    workload_id: fc
      .tuple(fc.nat(2 ** 31), fc.uint8Array({ minLength: 10, maxLength: 10 }))
      .map(([now, random]) => makeId(now, random)),
    replica: fc.nat(999_999),
    run_epoch: fc.nat(999_999_999),
  },
  { noNullPrototype: true },
);

test('a run name is read back as the run it was made from', () => {
  fc.assert(
    fc.property(run, (key) => {
      assert.deepEqual(parseRunName(runName(key)), key);
    }),
    { seed: 5 },
  );
});

test('different runs have different names', () => {
  fc.assert(
    fc.property(run, run, (a, b) => {
      const same = JSON.stringify(a) === JSON.stringify(b);
      assert.equal(runName(a) === runName(b), same);
    }),
    { seed: 6 },
  );
});

test('what is no run name is told, a path least of all is one', () => {
  const good = runName({ workload_id: makeId(1, new Uint8Array(10)), replica: 0, run_epoch: 1 });
  const bad = [
    '',
    '.',
    '..',
    `../${good}`,
    `${good}/..`,
    `${good}.json`,
    good.slice(1),
    `${good} `,
  ];
  for (const name of [...bad, good.replace('.0.', '..'), `${good}\n`, good.toUpperCase()]) {
    assert.equal(parseRunName(name), null, JSON.stringify(name));
  }
});
