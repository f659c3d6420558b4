import assert from 'node:assert/strict';
import { test } from 'node:test';
import { offeredAmounts } from './offer.ts';

const gib = 2 ** 30;
const has = {
  ...{ cpu_count: 8, cpu_millis: 8000, memory_bytes: 32 * gib },
  ...{ disk_free_bytes: 200e9, disk_total_bytes: 500e9 },
};
const none = { cpu_millis: null, memory_bytes: null };

test('by default a quarter is kept, and on disk a tenth', () => {
  assert.deepEqual(offeredAmounts(has, none), {
    ...{ cpu_millis: 6000, memory_bytes: 24 * gib, disk_bytes: 150e9 },
  });
});

test("a reserve of the machine's policy narrows what is offered, and never adds to it", () => {
  const reserve = { cpu_millis: 3000, memory_bytes: 20 * gib, disk_bytes: 90e9 };
  assert.deepEqual(offeredAmounts(has, { ...none, reserve }), {
    ...{ cpu_millis: 5000, memory_bytes: 12 * gib, disk_bytes: 110e9 },
  });
  const little = { cpu_millis: 0, memory_bytes: 1, disk_bytes: 1 };
  assert.deepEqual(offeredAmounts(has, { ...none, reserve: little }), offeredAmounts(has, none));
  const asked = { cpu_millis: 8000, memory_bytes: 30 * gib };
  assert.equal(offeredAmounts(has, { ...asked, reserve }).cpu_millis, 5000);
  const all = { cpu_millis: 99_000, memory_bytes: 99 * gib, disk_bytes: 1e15 };
  assert.deepEqual(offeredAmounts(has, { ...asked, reserve: all }), {
    ...{ cpu_millis: 0, memory_bytes: 0, disk_bytes: 0 },
  });
});
