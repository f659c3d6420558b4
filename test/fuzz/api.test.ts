/**
 * Anything asked of the API by users of three tenants, over its real HTTP server.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { routes } from '../../src/contract/routes.ts';
import { fuzzApi } from '../lib/api-fuzz-run.ts';
import type { Rig } from '../lib/rig.ts';

test('whatever is asked, no answer is a failure, of another shape, or of another tenant', async (t) => {
  const { missed, told } = await fuzzApi({ seed: 1, runs: 16, calls: 200 });
  t.diagnostic(told);
  // So few calls do not come to everything; the night's do.
  const most = Object.keys(routes).length / 4;
  assert.ok(missed.length < most, `too much was never reached: ${missed.join()}`);
});

test('an answer with the id of another tenant, or of another shape, is found', async () => {
  const form = { seed: 2, runs: 2, calls: 60 };
  const foreign = (text: string, rig: Rig) =>
    text.replace('{', `{"x":"${rig.ids.machine_id}",`).replace(',}', '}');
  await assert.rejects(fuzzApi({ ...form, spoil: foreign }), /holds .* of tenant/);
  const misshapen = (text: string) => text.replace('"', '"x');
  await assert.rejects(fuzzApi({ ...form, spoil: misshapen }));
});
