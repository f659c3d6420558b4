/**
 * Proofs that end under what is held open by them.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createFakeClock } from '../../../test/lib/fake-clock.ts';
import { createRevocations, type Held } from './revocations.ts';

const grace: Held = { proof_id: 'p1', user_id: 'u1', tenant_id: 't1', expires_at: null };
const linus: Held = { proof_id: 'p2', user_id: 'u2', tenant_id: 't1', expires_at: null };

test('a proof, a user and a tenant end what is held by them, once, and nothing else', () => {
  const revocations = createRevocations(createFakeClock());
  const heard: string[] = [];
  const watch = () => {
    revocations.watch(grace, () => heard.push('grace'));
    revocations.watch(linus, () => heard.push('linus'));
  };
  watch();
  revocations.tell({ proof_id: 'p1' });
  revocations.tell({ proof_id: 'p1' });
  assert.deepEqual(heard.splice(0), ['grace']);
  revocations.tell({ user_id: 'u2' });
  assert.deepEqual(heard.splice(0), ['linus']);
  watch();
  revocations.tell({ tenant_id: 't2' });
  assert.deepEqual(heard.splice(0), []);
  revocations.tell({ tenant_id: 't1' });
  assert.deepEqual(heard.splice(0), ['grace', 'linus']);
  assert.equal(revocations.watching(), 0);
});

test('what is given up hears nothing and is not kept, nor is its timer', async () => {
  const clock = createFakeClock();
  const revocations = createRevocations(clock);
  const stop = revocations.watch({ ...grace, expires_at: clock.now() + 5000 }, () => assert.fail());
  stop();
  stop();
  revocations.tell({ proof_id: 'p1' });
  await clock.advance(10_000);
  assert.deepEqual([revocations.watching(), clock.waiting()], [0, 0]);
});

test('a proof that ends by age is told then, however far away that is', async () => {
  const clock = createFakeClock();
  const revocations = createRevocations(clock);
  const day_ms = 24 * 3600_000;
  const heard: number[] = [];
  const began = clock.now();
  for (const days of [1, 24, 90]) {
    const expires_at = began + days * day_ms;
    revocations.watch({ ...grace, expires_at }, () => heard.push((clock.now() - began) / day_ms));
  }
  await clock.advance(100 * day_ms);
  assert.deepEqual(heard, [1, 24, 90]);
});

test('a listener that throws does not keep the others from hearing', () => {
  const revocations = createRevocations(createFakeClock());
  const heard: string[] = [];
  revocations.watch(grace, () => {
    throw new Error('its own fault');
  });
  revocations.watch(grace, () => heard.push('second'));
  revocations.tell({ user_id: 'u1' });
  assert.deepEqual(heard, ['second']);
});
