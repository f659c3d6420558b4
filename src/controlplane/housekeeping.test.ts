/**
 * What is kept for a while only.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createFakeClock } from '../../test/lib/fake-clock.ts';
import { requestRecord } from '../../test/lib/request-records.ts';
import { openTestStore, select } from '../../test/lib/rig.ts';
import { limits } from '../contract/limits.ts';
import { rowOfRecord } from '../gateway/records/rows.ts';
import { silentLog } from '../lib/log.ts';
import { startHousekeeping } from './housekeeping.ts';

const round_ms = 10 * 60_000;

test('requests that are too old go in one round, however many, and their sums stay', async () => {
  const { store, close } = await openTestStore('memory');
  const clock = createFakeClock();
  const old = limits.requests_forgotten_at_once * 2 + 1;
  const kept_from = clock.now() + round_ms - limits.requests_kept_ms;
  const rows = Array.from({ length: old + 5 }, (_, number) =>
    rowOfRecord(
      requestRecord({
        request_id: String(number).padStart(26, '0'),
        at: number < old ? kept_from - 1 : kept_from,
      }),
    ),
  );
  await store.transact('recordRequests', { rows, lost: 0, now: clock.now() });
  const chore = startHousekeeping({ store, clock, log: silentLog });
  await clock.advance(round_ms);
  await chore.stop();
  const count = async (what: string) =>
    Number((await select<{ n: number }>(store, `select ${what} as n`))[0]?.n);
  assert.equal(await count('(select count(*) from requests)'), 5);
  assert.equal(await count('(select sum(requests) from request_days)'), rows.length);
  await close();
});
