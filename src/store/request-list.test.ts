/**
 * Single requests, page by page, on every store: the same as a plain look through all of them.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { requestRow } from '../../test/lib/request-records.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';
import { listGatewayRequests, type RequestListArgs, type RequestPlace } from './request-list.ts';
import type { RequestRow } from './requests.ts';

type Facts = Pick<RequestRow, 'at' | 'tenant_id' | 'model' | 'outcome'> & {
  user: string;
  key: string;
};

const users = ['u1', 'u2'];
const anyRow: fc.Arbitrary<Facts> = fc.record({
  at: fc.integer({ min: 1, max: 5 }),
  tenant_id: fc.constantFrom('t1', 't2'),
  user: fc.constantFrom(...users),
  key: fc.constantFrom('a', 'b'),
  model: fc.constantFrom('smol', 'big'),
  outcome: fc.constantFrom('answered', 'refused', 'cut', 'client_left'),
});
const asked = fc.record({
  user_id: fc.constantFrom(...users, null),
  key: fc.constantFrom('a', 'b', null),
  model: fc.constantFrom('smol', null),
  failed: fc.boolean(),
  limit: fc.integer({ min: 1, max: 7 }),
});

/** Users and keys are of one tenant each. */
function rowsOf(facts: Facts[]): RequestRow[] {
  return facts.map(({ user, key, ...row }, number) => {
    const user_id = `${user}-${row.tenant_id}`;
    return requestRow(number, { ...row, user_id, key_id: `${key}-${user_id}` });
  });
}

function expected(rows: RequestRow[], args: Omit<RequestListArgs, 'before' | 'limit'>): string[] {
  return rows
    .filter((row) => row.tenant_id === args.tenant_id)
    .filter((row) => args.user_id === null || row.user_id === args.user_id)
    .filter((row) => args.key_id === null || row.key_id === args.key_id)
    .filter((row) => args.model === null || row.model === args.model)
    .filter((row) => !args.failed || row.outcome === 'refused' || row.outcome === 'cut')
    .sort((a, b) => b.at - a.at || (a.request_id < b.request_id ? 1 : -1))
    .map(({ request_id }) => request_id);
}

onEveryStore('single requests', (inStory, kind) => {
  inStory('pages hold each once, newest first, and nothing else', async ({ store }) => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyRow, { maxLength: 40 }), asked, async (facts, by) => {
        await store.transact('write', { text: 'delete from requests', params: [] });
        const rows = rowsOf(facts);
        await store.transact('recordRequests', { rows, lost: 0, now: 1 });
        const user_id = by.user_id === null ? null : `${by.user_id}-t1`;
        const key_id = by.key === null ? null : `${by.key}-u1-t1`;
        const { model, failed, limit } = by;
        const args = { tenant_id: 't1', user_id, key_id, model, failed };
        const seen: string[] = [];
        let before: RequestPlace | null = null;
        do {
          const page: { rows: RequestRow[]; next: RequestPlace | null } = await store.read(
            listGatewayRequests,
            { ...args, before, limit },
          );
          assert.ok(page.rows.length <= limit);
          seen.push(...page.rows.map(({ request_id }) => request_id));
          before = page.next;
        } while (before !== null);
        assert.deepEqual(seen, expected(rows, args));
      }),
      { seed: 15, numRuns: kind === 'memory' ? 60 : 8 },
    );
  });
});
