/**
 * The catalog: names that stand in scripts, and sizes that hold what they say.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  classes,
  defaultAmounts,
  findClass,
  findModel,
  modelMemoryBytes,
  models,
  smallestClass,
} from './catalog.ts';
import { kinds } from './workload.ts';

test('names are unique and stay what they are', () => {
  assert.deepEqual(
    classes.map((entry) => entry.name),
    [
      ...['cpu-1c-2g', 'cpu-2c-4g', 'cpu-4c-8g', 'cpu-4c-16g', 'cpu-8c-32g', 'nvidia-any'],
      ...['rtx-3090-24gb', 'rtx-4090-24gb', 'l40s-48gb', 'a100-80gb', 'h100-80gb', 'h200-141gb'],
      ...['apple-silicon-32gb', 'apple-paravirt'],
    ],
  );
  assert.deepEqual(
    models.map((entry) => entry.name),
    ['smollm2-135m'],
  );
});

test('what is named is found, what is not is null', () => {
  for (const entry of classes) assert.equal(findClass(entry.name), entry);
  for (const entry of models) assert.equal(findModel(entry.name), entry);
  for (const name of ['', 'toString', 'cpu-1c-2G']) {
    assert.equal(findClass(name), null);
    assert.equal(findModel(name), null);
  }
});

test('the smallest class that fits is chosen, and none that does not', () => {
  fc.assert(
    fc.property(fc.nat(2 ** 36), (memory_bytes) => {
      const chosen = smallestClass(memory_bytes);
      const cpu = classes.filter(({ accelerator }) => accelerator === 'cpu');
      const fitting = cpu.filter((entry) => entry.memory_bytes >= memory_bytes);
      if (chosen === null) return assert.equal(fitting.length, 0);
      const least = Math.min(...fitting.map((entry) => entry.memory_bytes));
      assert.equal(chosen.memory_bytes, least);
    }),
    { seed: 12 },
  );
});

test('every model of the catalog fits into a class, with room for more than its weights', () => {
  for (const model of models) {
    const needed = modelMemoryBytes(model.file_bytes);
    assert.ok(needed > model.file_bytes);
    assert.notEqual(smallestClass(needed), null, model.name);
  }
});

test('a larger file never needs less memory', () => {
  fc.assert(
    fc.property(fc.nat(2 ** 36), fc.nat(2 ** 36), (a, b) => {
      assert.equal(modelMemoryBytes(Math.min(a, b)) <= modelMemoryBytes(Math.max(a, b)), true);
    }),
    { seed: 13 },
  );
});

test('every kind has amounts where nothing was said', () => {
  for (const kind of kinds) {
    const amounts = defaultAmounts(kind);
    assert.ok(amounts.cpu_millis > 0 && amounts.memory_bytes > 0 && amounts.disk_bytes >= 0);
  }
});
