/**
 * The journal of requests, with a store that can fail, and on a store that was left.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createFakeClock } from '../../../test/lib/fake-clock.ts';
import { requestRecord } from '../../../test/lib/request-records.ts';
import { openTestStore, select } from '../../../test/lib/rig.ts';
import { limits } from '../../contract/limits.ts';
import { silentLog } from '../../lib/log.ts';
import { StoreError } from '../../store/sql.ts';
import type { RequestRecord } from '../request-record.ts';
import { createJournal } from './journal.ts';
import { openJournal } from './open-journal.ts';

type Answer = 'done' | 'fails' | 'refuses' | 'unknown';

/** A journal whose store answers as it is told, once it is let. */
function rig(lost = 0) {
  const clock = createFakeClock();
  const written: string[][] = [];
  const said = { next: [] as Answer[], hold: false };
  let letGo = () => {};
  const journal = createJournal({
    ...{ clock, log: silentLog, lost },
    async write(records) {
      if (said.hold) {
        await new Promise<void>((resolve) => {
          letGo = resolve;
        });
      }
      const answer = said.next.shift() ?? 'done';
      const ids = records.map(({ request_id }) => request_id);
      if (answer === 'done' || answer === 'unknown') written.push(ids);
      if (answer === 'fails') throw new StoreError('store_failing', 'away');
      if (answer === 'unknown') throw new StoreError('outcome_unknown', 'who knows');
      if (answer === 'refuses') throw new StoreError('rejected', 'a defect');
    },
  });
  let count = 0;
  const add = (many = 1) => {
    for (let one = 0; one < many; one += 1) {
      journal.add(requestRecord({ request_id: `r${count}` }));
      count += 1;
    }
  };
  const settle = () => clock.advance(0);
  return { clock, journal, written, said, add, settle, letGo: () => letGo() };
}

test('what is added is written a tenth of a second later, together', async () => {
  const { clock, journal, written, add } = rig();
  add(3);
  await clock.advance(limits.request_journal_ms - 1);
  assert.deepEqual(written, []);
  assert.deepEqual(journal.standing(), { waiting: 3, oldest_ms: 99, lost: 0 });
  await clock.advance(1);
  assert.deepEqual(written, [['r0', 'r1', 'r2']]);
  assert.deepEqual(journal.standing(), { waiting: 0, oldest_ms: 0, lost: 0 });
});

test('a full batch is written at once, and what came meanwhile right behind it', async () => {
  const { written, said, add, settle, letGo, clock } = rig();
  said.hold = true;
  add(limits.request_batch * 2 + 1);
  await settle();
  said.hold = false;
  letGo();
  await settle();
  assert.deepEqual(
    written.map(({ length }) => length),
    [limits.request_batch, limits.request_batch],
  );
  await clock.advance(limits.request_journal_ms);
  assert.deepEqual(written[2], [`r${limits.request_batch * 2}`]);
});

test('while the store fails all is kept, asked for more and more slowly, then written', async () => {
  const { clock, journal, written, said, add } = rig();
  said.next = Array.from({ length: 8 }, (): Answer => 'fails');
  add(5);
  let tries = 0;
  for (; said.next.length > 0; tries += 1) await clock.advance(1000);
  assert.ok(tries >= 15, `${tries} seconds for 8 tries`);
  add(1);
  await clock.advance(limits.request_journal_retry_ms);
  assert.deepEqual(written, [['r0', 'r1', 'r2', 'r3', 'r4', 'r5']]);
  assert.equal(journal.standing().lost, 0);
});

test('at its cap the oldest go, and are counted', async () => {
  const { clock, journal, written, said, add } = rig(7);
  said.next = ['fails', 'fails'];
  add(limits.request_journal_records + 10);
  await clock.advance(0);
  assert.deepEqual(journal.standing().waiting, limits.request_journal_records);
  assert.equal(journal.standing().lost, 17);
  for (let batch = 0; batch < 200; batch += 1) await clock.advance(limits.request_journal_ms);
  const ids = written.flat();
  assert.equal(ids.length, limits.request_journal_records);
  assert.equal(ids.at(-1), `r${limits.request_journal_records + 9}`);
  assert.equal(new Set(ids).size, ids.length);
});

test('what the store refuses for what it is holds up nothing, and is counted', async () => {
  const { clock, journal, written, said, add } = rig();
  said.next = ['refuses'];
  add(2);
  await clock.advance(limits.request_journal_ms);
  add(1);
  await clock.advance(limits.request_journal_ms);
  assert.deepEqual(written, [['r2']]);
  assert.equal(journal.standing().lost, 2);
});

test('stopping writes what is there, all batches of it, and what comes after is counted', async () => {
  const { journal, written, add } = rig();
  add(limits.request_batch - 1);
  await journal.stop();
  add(1);
  assert.deepEqual(
    written.map(({ length }) => length),
    [limits.request_batch - 1],
  );
  assert.equal(journal.standing().lost, 1);
});

test('stopping without a store ends, and counts what it could not write', async () => {
  const { journal, said, add } = rig();
  said.next = ['fails'];
  add(3);
  await journal.stop();
  assert.deepEqual(journal.standing(), { waiting: 0, oldest_ms: 0, lost: 3 });
});

test('whatever the store answers, each record is written once or counted as lost', async () => {
  const step = fc.oneof(
    fc.record({ add: fc.nat(300) }),
    fc.record({ advance: fc.nat(6000) }),
    fc.record({
      answers: fc.array(fc.constantFrom<Answer>('done', 'fails', 'refuses', 'unknown')),
    }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
      const { clock, journal, written, said, add } = rig();
      let added = 0;
      for (const one of steps) {
        if ('add' in one) {
          add(one.add);
          added += one.add;
        } else if ('advance' in one) await clock.advance(one.advance);
        else said.next.push(...one.answers);
      }
      said.next = [];
      await journal.stop();
      // What is written twice after an unknown outcome is the same record: the store takes it once.
      const told = new Set(written.flat()).size + journal.standing().lost;
      const is_sure = !steps.some((one) => 'answers' in one && one.answers.includes('unknown'));
      // Where nobody knows whether it was written, it may be counted as lost all the same.
      if (is_sure) assert.equal(told, added);
      else assert.ok(told >= added, `${told} of ${added}`);
    }),
    { seed: 70, numRuns: 60 },
  );
});

const open = async (
  name: string,
  body: (at: Awaited<ReturnType<typeof openTestStore>>) => Promise<void>,
) =>
  test(name, async () => {
    const at = await openTestStore('memory');
    await body(at).finally(at.close);
  });

open('a process that was killed is seen at the next start', async (at) => {
  const deps = { store: at.store, clock: createFakeClock(), log: silentLog };
  const first = await openJournal(deps);
  assert.equal(first.unclean, 0);
  first.add(requestRecord({}));
  await deps.clock.advance(limits.request_journal_ms);
  const second = await openJournal(deps);
  assert.equal(second.unclean, 1);
  await second.stop();
  const third = await openJournal(deps);
  assert.deepEqual([third.unclean, third.standing().lost], [1, 0]);
});

open('whatever a client calls a model, and an engine counts, it can be recorded', async (at) => {
  const deps = { store: at.store, clock: createFakeClock(), log: silentLog };
  const journal = await openJournal(deps);
  const odd: Partial<RequestRecord>[] = [
    { model: 'a\u0000b\ud800', code: '\u001b[31m' },
    { model: 'x'.repeat(100_000) },
    {
      use: {
        prompt_tokens: -1,
        completion_tokens: 1.5,
        cached_tokens: Number.NaN,
        is_estimated: true,
      },
    },
    { waited_ms: Number.POSITIVE_INFINITY, duration_ms: 0.2, first_token_ms: -3 },
  ];
  for (const [index, more] of odd.entries()) {
    journal.add(requestRecord({ request_id: `r${index}`, ...more }));
  }
  await journal.stop();
  assert.equal(journal.standing().lost, 0);
  const rows = await select(at.store, 'select * from requests order by request_id');
  assert.equal(rows.length, odd.length);
  assert.deepEqual([rows[0]?.code, String(rows[1]?.model).length], ['', 200]);
  assert.deepEqual([rows[2]?.prompt_tokens, rows[2]?.completion_tokens], [0, 2]);
});
