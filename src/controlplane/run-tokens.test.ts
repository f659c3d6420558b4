import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Secret } from '../lib/secret.ts';
import { createRunTokens } from './run-tokens.ts';

const run = { workload_id: 'a'.repeat(26), replica: 0, run_epoch: 1 };
const keyOf = (hex: string) => ({ key_id: 'k', key: new Secret(hex.repeat(64)) });

test('a run has the same token each time, and another run and another deployment another', () => {
  const tokens = createRunTokens(keyOf('1'));
  const own = tokens.siteToken(run).reveal();
  assert.match(own, /^[0-9a-f]{64}$/);
  assert.equal(createRunTokens(keyOf('1')).siteToken(run).reveal(), own);
  assert.notEqual(tokens.siteToken({ ...run, run_epoch: 2 }).reveal(), own);
  assert.notEqual(tokens.siteToken({ ...run, replica: 1 }).reveal(), own);
  assert.notEqual(createRunTokens(keyOf('2')).siteToken(run).reveal(), own);
  assert.equal(`${tokens.siteToken(run)}`, '[redacted]');
});
