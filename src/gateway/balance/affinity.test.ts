/**
 * What begins alike goes alike, per tenant; and where it goes moves only when it must.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../contract/limits.ts';
import { affinityOf, affinityScore } from './affinity.ts';

const long = 'You are a careful assistant. '.repeat(100);
const chat = (...texts: string[]) => ({
  messages: texts.map((content) => ({ role: 'user', content })),
});
const best = (affinity: string, replicas: readonly number[]) =>
  replicas.toSorted((a, b) => affinityScore(affinity, b) - affinityScore(affinity, a))[0];

test('a conversation keeps its affinity as it grows, and each tenant has its own', () => {
  const first = affinityOf('t', chat(long, 'hello'));
  assert.ok(first);
  assert.equal(affinityOf('t', chat(long, 'hello', 'and then?')), first);
  assert.equal(affinityOf('t', { ...chat(long), model: 'other', stream: true }), first);
  assert.notEqual(affinityOf('u', chat(long, 'hello')), first);
  assert.notEqual(affinityOf('t', chat(`x${long}`)), first);
});

test('a short prompt has none, whatever its form; long ones of each form have', () => {
  const parts = [{ role: 'user', content: [{ type: 'text', text: long }] }];
  const tokens = Array.from({ length: limits.affinity_chars }, (_, index) => index);
  for (const fields of [
    { prompt: long },
    { prompt: [long] },
    { prompt: tokens },
    { input: long },
  ]) {
    assert.ok(affinityOf('t', fields), JSON.stringify(fields).slice(0, 40));
  }
  assert.ok(affinityOf('t', { messages: parts }));
  for (const fields of [{}, { prompt: null }, { prompt: 'short' }, chat('a', 'b'), { input: [] }]) {
    assert.equal(affinityOf('t', fields), null);
  }
});

test('what is nested without end is read to its bound', () => {
  let nested: unknown = long;
  for (let depth = 0; depth < 100_000; depth += 1) nested = [nested];
  assert.ok(affinityOf('t', { prompt: nested }));
});

test('replicas share the affinities evenly, and one that leaves moves only its own', () => {
  const all = [0, 1, 2, 3];
  const affinities = Array.from({ length: 4000 }, (_, index) =>
    affinityOf('t', { prompt: `${index} ${long}` }),
  ).filter((one) => one !== null);
  const counts = all.map(
    (replica) => affinities.filter((one) => best(one, all) === replica).length,
  );
  assert.ok(
    counts.every((count) => count > 880 && count < 1120),
    String(counts),
  );
  for (const affinity of affinities) {
    const chosen = best(affinity, all);
    if (chosen !== 3) assert.equal(best(affinity, [0, 1, 2]), chosen);
  }
});
