/**
 * The texts that the chain hashes: written in canonical order by hand, because it is the quicker
 * way, and the same as canonical JSON all the same.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commitmentOf, sealHash } from './activity-chain.ts';
import { canonicalJson } from './canonical-json.ts';

const asText = (text: string) => text;
const row = {
  ...{ id: 'a1', seq: 7, at: 1_700_000_000_000, via: 'token', request_id: 'r', route: 'launch' },
  ...{ target: null, outcome: 'done "ü"', commitment: 'c' },
};

test('what is committed to is canonical JSON', () => {
  const part = { user_id: null, actor: 'user:ü', proof_id: 'p', client_request_id: null };
  const text = commitmentOf({ ...part, details: '{"name":"x"}' }, 'salt', asText);
  assert.equal(text, canonicalJson({ ...part, details: '{"name":"x"}', salt: 'salt' }));
});

test('what a seal covers is canonical JSON after the hash before it', () => {
  const seal = { tenant_id: 't', number: 2, at: 5, first_seq: 7, last_seq: 8 };
  const rows = [row, { ...row, target: 'workload:w', seq: 8 }];
  const theirs = rows.map((one) => ({ ...one, tenant_id: 't' }));
  const text = sealHash('before', seal, theirs, asText);
  assert.equal(text, `before${canonicalJson({ ...seal, rows })}`);
});
