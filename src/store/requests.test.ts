/**
 * Requests of the gateway and their sums by day, on every store.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { requestRow } from '../../test/lib/request-records.ts';
import { select } from '../../test/lib/rig.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';
import { first_token_buckets, firstTokenBucket } from '../core/first-token.ts';
import type { RequestRow } from './requests.ts';

const day_ms = 24 * 3600_000;
const now = 40 * day_ms;

const anyRow = fc
  .record({
    number: fc.nat(30),
    at: fc.integer({ min: 0, max: 3 * day_ms }),
    key_id: fc.constantFrom('k1', 'k2'),
    tenant_id: fc.constantFrom('t1', 't2'),
    user_id: fc.constantFrom('u1', null),
    workload_id: fc.constantFrom('w1', 'w2', null),
    model: fc.constantFrom('smol', 'big'),
    outcome: fc.constantFrom('answered', 'refused', 'cut', 'client_left'),
    prompt_tokens: fc.nat(1000),
    completion_tokens: fc.nat(1000),
    is_estimated: fc.constantFrom(0, 1),
    first_token_ms: fc.option(fc.nat(200_000)),
  })
  .map(({ number, ...row }) => {
    // A key is of one tenant and one user.
    const of_key = row.key_id === 'k1' ? { tenant_id: 't1', user_id: 'u1' } : { user_id: null };
    return requestRow(number, { ...row, ...of_key });
  });

/** What the sums of these rows are: by a way of their own. */
function expected(rows: readonly RequestRow[]): Map<string, number[]> {
  const sums = new Map<string, number[]>();
  for (const row of rows) {
    const model = row.workload_id === null ? '' : row.model;
    const day = row.at - (row.at % day_ms);
    const key = [row.tenant_id, day, row.key_id, row.workload_id ?? '', model, row.outcome];
    const name = [...key, row.user_id ?? ''].join('/');
    const sum = sums.get(name) ?? new Array<number>(7 + first_token_buckets).fill(0);
    const { attempts, prompt_tokens, completion_tokens, cached_tokens, is_estimated } = row;
    const amounts = [1, attempts, prompt_tokens, completion_tokens, cached_tokens, is_estimated];
    for (const [index, amount] of [...amounts, row.duration_ms].entries()) {
      sum[index] = (sum[index] ?? 0) + amount;
    }
    if (row.first_token_ms !== null) {
      const at = 7 + firstTokenBucket(row.first_token_ms);
      sum[at] = (sum[at] ?? 0) + 1;
    }
    sums.set(name, sum);
  }
  return sums;
}

onEveryStore('requests', (inStory, kind) => {
  type Sums = Record<string, string | number>;
  const sumsOf = async (store: Parameters<typeof select>[0]) => {
    const rows = await select<Sums>(store, 'select * from request_days');
    const names = ['tenant_id', 'day', 'key_id', 'workload_id', 'model', 'outcome', 'user_id'];
    const sums = ['requests', 'attempts', 'prompt_tokens', 'completion_tokens', 'cached_tokens'];
    const all = [...sums, 'estimated', 'duration_ms'];
    for (let at = 0; at < first_token_buckets; at += 1) all.push(`first_${at}`);
    return new Map(
      rows.map((row) => [
        names.map((name) => row[name]).join('/'),
        all.map((name) => Number(row[name])),
      ]),
    );
  };

  inStory('the sums by day are those of the rows, however they came', async ({ store }) => {
    const story = fc.array(fc.array(anyRow, { maxLength: 70 }), { maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(story, async (batches) => {
        for (const table of ['requests', 'request_days']) {
          await store.transact('write', { text: `delete from ${table}`, params: [] });
        }
        const kept = new Map<string, RequestRow>();
        for (const rows of batches) {
          const fresh = rows.filter(({ request_id }) => !kept.has(request_id));
          for (const row of fresh) {
            if (!kept.has(row.request_id)) kept.set(row.request_id, row);
          }
          const count = new Set(fresh.map(({ request_id }) => request_id)).size;
          const args = { rows, lost: 0, now };
          assert.deepEqual(await store.transact('recordRequests', args), { added: count });
          assert.deepEqual(await store.transact('recordRequests', args), { added: 0 });
        }
        const wanted = expected([...kept.values()]);
        assert.deepEqual(new Map([...(await sumsOf(store))].sort()), new Map([...wanted].sort()));
      }),
      { seed: 14, numRuns: kind === 'memory' ? 40 : 8 },
    );
  });

  inStory('a repeat with more beside it adds what is new and nothing else', async ({ store }) => {
    const rows = Array.from({ length: 256 }, (_, number) => requestRow(number));
    const write = (some: RequestRow[]) =>
      store.transact('recordRequests', { rows: some, lost: 0, now });
    assert.deepEqual(await write(rows.slice(0, 200)), { added: 200 });
    assert.deepEqual(await write(rows), { added: 56 });
    const [day] = await select<{ requests: number }>(store, 'select requests from request_days');
    assert.equal(Number(day?.requests), 256);
  });

  inStory('what is forgotten stays in the sums, and the oldest goes first', async ({ store }) => {
    const rows = Array.from({ length: 9 }, (_, number) =>
      requestRow(number, { at: now - (9 - number) * day_ms }),
    );
    await store.transact('recordRequests', { rows, lost: 0, now });
    const sums = await sumsOf(store);
    const forget = (limit: number) =>
      store.transact('forgetRequests', { before: now - 4 * day_ms, limit });
    assert.deepEqual(await forget(2), { forgotten: 2 });
    assert.deepEqual(await forget(100), { forgotten: 3 });
    assert.deepEqual(await forget(100), { forgotten: 0 });
    const left = await select<{ at: number }>(store, 'select at from requests order by at');
    assert.deepEqual(
      left.map(({ at }) => (now - Number(at)) / day_ms),
      [4, 3, 2, 1],
    );
    assert.deepEqual(await sumsOf(store), sums);
  });

  inStory('a journal that was not closed is counted, and what it lost kept', async ({ store }) => {
    const open = (at: number) => store.transact('openRequestJournal', { now: at });
    assert.deepEqual(await open(1), { lost: 0, unclean: 0, unclosed_at: null });
    await store.transact('recordRequests', { rows: [requestRow(1)], lost: 3, now: 5 });
    await store.transact('recordRequests', { rows: [], lost: 2, now: 6 });
    assert.deepEqual(await open(9), { lost: 3, unclean: 1, unclosed_at: 6 });
    await store.transact('closeRequestJournal', { now: 10, lost: 4 });
    assert.deepEqual(await open(11), { lost: 4, unclean: 1, unclosed_at: null });
  });
});
