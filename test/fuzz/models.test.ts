/**
 * The model validators against spoiled files and files made to cost the most: each ends in a
 * verdict, in bounded time and memory.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { explodeModels, fuzzModels } from '../lib/model-fuzz.ts';

test('1,200 spoiled models get a verdict each, in time and with little memory', async () => {
  const told = await fuzzModels(0, 1200);
  assert.equal(told.accepted + told.refused, 1200);
  assert.ok(told.rules >= 25, `only ${told.rules} rules were broken`);
});

test('files made to cost the most get a verdict, in time and with little memory', async (t) => {
  for (const cost of await explodeModels()) t.diagnostic(cost);
});
