/**
 * What every store must do, whatever its engine: run by the tests beside each implementation.
 *
 * `open` gives an empty store with the schema and transactions of `store-transactions.ts`.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Sql, type Store, StoreError } from '../../src/store/sql.ts';
import { countBoxes, listBoxes, type SuiteTable } from './store-transactions.ts';

export type OpenStore = () => Promise<Store<SuiteTable>>;
type Given = { store: Store<SuiteTable> };

export function storeContract(name: string, open: OpenStore): void {
  describe(`the store contract on ${name}`, () => {
    const given = {} as Given;
    before(async () => {
      given.store = await open();
    });
    after(() => given.store.close());
    outcomes(given);
    constraints(given);
    values(given);
    defects(given);
    guards(given);
    reads(given);
    concurrency(given);
    closing(open);
  });
}

function outcomes(given: Given): void {
  test('what a transaction wrote is there once it has resolved', async () => {
    const args = { id: 'kept', label: 'a box', size: 3 };
    assert.deepEqual(await given.store.transact('addBox', args), { id: 'kept' });
    const found = await given.store.read(listBoxes, { ids: ['kept'] });
    assert.deepEqual(found, [{ id: 'kept', label: 'a box', size: 3 }]);
  });

  test('a transaction that throws undoes all it wrote', async () => {
    const error = await failureOf(given.store.transact('addThenThrow', { id: 'thrown' }));
    assert.equal(error.code, 'rejected');
    assert.equal(error.message, 'changed my mind');
    assert.equal(error.refused, null);
    assert.equal(await given.store.read(countBoxes, { prefix: 'thrown' }), 0);
  });

  test('a refusal keeps its code and details', async () => {
    const error = await failureOf(given.store.transact('addThenRefuse', { id: 'refused' }));
    assert.equal(error.code, 'rejected');
    assert.deepEqual(error.refused, { code: 'too_heavy', details: { limit: 3 } });
    assert.equal(await given.store.read(countBoxes, { prefix: 'refused' }), 0);
  });

  test('an unknown transaction is rejected', async () => {
    const name = 'toString' as 'addBox';
    const error = await failureOf(given.store.transact(name, { id: 'unknown' }));
    assert.equal(error.code, 'rejected');
  });
}

function constraints(given: Given): void {
  test('a unique index refuses by its name', async () => {
    await given.store.transact('addBox', { id: 'u1', label: 'same' });
    const error = await failureOf(given.store.transact('addBox', { id: 'u2', label: 'same' }));
    assert.deepEqual([error.code, error.constraint], ['unique', 'boxes_label']);
    const twice = await failureOf(given.store.transact('addBox', { id: 'u1' }));
    assert.equal(twice.code, 'unique');
  });

  test('a statement that failed once works the next time, also where it returns rows', async () => {
    await given.store.transact('addBoxAndList', { id: 'list-1', label: 'listed' });
    const error = await failureOf(
      given.store.transact('addBoxAndList', { id: 'list-2', label: 'listed' }),
    );
    assert.deepEqual([error.code, error.constraint], ['unique', 'boxes_label']);
    const added = await given.store.transact('addBoxAndList', { id: 'list-3' });
    assert.deepEqual(added, [{ id: 'list-3' }]);
  });

  test('a named check refuses by its name, and a missing value is a check', async () => {
    const error = await failureOf(given.store.transact('addBox', { id: 'c', size: -1 }));
    assert.deepEqual([error.code, error.constraint], ['check', 'boxes_size']);
    const nothing = null as unknown as string;
    const missing = given.store.transact('addItem', { id: 'c', box_id: nothing });
    assert.equal((await failureOf(missing)).code, 'check');
  });

  test('a foreign key is checked also where the insert returns a row', async () => {
    const error = await failureOf(given.store.transact('addItem', { id: 'i', box_id: 'nowhere' }));
    assert.equal(error.code, 'foreign');
  });

  test('a statement that failed dooms its transaction, even when the error was caught', async () => {
    await given.store.transact('addBox', { id: 'taken' });
    const args = { id: 'swallowed', taken: 'taken' };
    const error = await failureOf(given.store.transact('swallowError', args));
    assert.equal(error.code, 'unique');
    assert.equal(await given.store.read(countBoxes, { prefix: 'swallowed' }), 0);
  });

  test('a failed statement that nobody awaited dooms its transaction', async () => {
    const error = await failureOf(given.store.transact('forgetToAwait', { id: 'forgot' }));
    assert.equal(error.code, 'check');
  });
}

function values(given: Given): void {
  test('args and results are plain JSON', async () => {
    const value = { text: 'ä', list: [1, null, true], nested: { off: false } };
    assert.deepEqual(await given.store.transact('echo', { value }), value);
    assert.equal(await given.store.transact('echo', { value: true }), true);
    assert.equal(await given.store.transact('echo', { value: null }), null);
    assert.equal(await given.store.transact('echo', {}), undefined);
    const dated = await given.store.transact('giveDate', undefined as never);
    assert.deepEqual(dated, { at: '1970-01-01T00:00:00.000Z' });
    const big = await failureOf(given.store.transact('giveBigint', undefined as never));
    assert.equal(big.code, 'rejected');
  });

  test('integers stay integers, and only strings, numbers and null are bound', async () => {
    assert.deepEqual(await given.store.transact('half', { of: 7 }), { half: 3 });
    const large = Number.MAX_SAFE_INTEGER;
    assert.deepEqual(await given.store.transact('bindValue', { value: large }), { value: large });
    for (const value of [true, undefined, { a: 1 }] as const) {
      const args = value === undefined ? {} : { value };
      const error = await failureOf(given.store.transact('bindValue', args));
      assert.match(error.message, /only strings, numbers and null are stored/);
    }
  });

  test('in() takes many values, none, and not too many', async () => {
    const ids = ['in1', 'in2', 'in3'];
    await Promise.all(ids.map((id) => given.store.transact('addBox', { id })));
    const found = await given.store.read(listBoxes, { ids: ['in1', 'in3', 'in9'] });
    assert.deepEqual(
      found.map((box) => box.id),
      ['in1', 'in3'],
    );
    assert.deepEqual(await given.store.read(listBoxes, { ids: [] }), []);
    const many = Array.from({ length: 501 }, (_, index) => `in${index}`);
    await assert.rejects(given.store.read(listBoxes, { ids: many }), /at most 500/);
  });
}

function defects(given: Given): void {
  test('a transaction that waits for anything else is undone, and the next ones go on', async () => {
    const late = given.store.transact('waitForAnother', { id: 'late' });
    const never = given.store.transact('waitForever', { id: 'never' });
    const good = given.store.transact('addBox', { id: 'after-late' });
    for (const promise of [late, never]) {
      const error = await failureOf(promise);
      assert.equal(error.code, 'rejected');
      assert.match(error.message, /something other than sql/);
    }
    await good;
    await given.store.transact('addBox', { id: 'after-late-2' });
    assert.equal(await given.store.read(countBoxes, { prefix: 'late' }), 0);
    assert.equal(await given.store.read(countBoxes, { prefix: 'never' }), 0);
    assert.equal(await given.store.read(countBoxes, { prefix: 'after-late' }), 2);
  });

  test('a transaction cannot end itself', async () => {
    const error = await failureOf(given.store.transact('endItself', { id: 'ended' }));
    assert.match(error.message, /not a statement of a transaction/);
    assert.equal(await given.store.read(countBoxes, { prefix: 'ended' }), 0);
  });

  test('one that takes the whole batch down is the only one to fail', async () => {
    const calls = [
      given.store.transact('addBox', { id: 'beside-1' }),
      given.store.transact('failAtCommit', { id: 'beside-2' }),
      given.store.transact('addBox', { id: 'beside-3' }),
    ];
    const settled = await Promise.allSettled(calls);
    assert.deepEqual(
      settled.map((one) => one.status),
      ['fulfilled', 'rejected', 'fulfilled'],
    );
    assert.equal((await failureOf(calls[1])).code, 'foreign');
    assert.equal(await given.store.read(countBoxes, { prefix: 'beside-' }), 2);
  });
}

function guards(given: Given): void {
  test('a query cannot write', async () => {
    const query = async (sql: Sql) => sql.run('delete from boxes');
    await given.store.read(countBoxes, { prefix: 'none' });
    for (const _ of ['first', 'again']) {
      const error = await failureOf(given.store.read(query, null));
      assert.equal(error.code, 'rejected');
    }
    const late = async (sql: Sql) =>
      (await countBoxes(sql, { prefix: 'none' })) + (await query(sql));
    assert.equal((await failureOf(given.store.read(late, null))).code, 'rejected');
    await given.store.transact('addBox', { id: 'still-written' });
    assert.equal(await given.store.read(countBoxes, { prefix: 'still-written' }), 1);
  });
}

function reads(given: Given): void {
  test('a query that would give too many rows is refused', async () => {
    const text = `with recursive r (n) as (select 1 union all select n + 1 from r where n < $1)
      select n from r`;
    const query = (sql: Sql, args: number) => sql.all<{ n: number }>(text, [args]);
    assert.equal((await given.store.read(query, 10_000)).length, 10_000);
    await assert.rejects(given.store.read(query, 10_001), /more than 10000 rows/);
  });

  test('a query that waits for anything else fails and holds nobody up', async () => {
    const stuck = given.store.read(() => new Promise<number>(() => {}), null);
    const good = given.store.read(countBoxes, { prefix: 'none' });
    await assert.rejects(stuck, /something other than sql/);
    assert.equal(await good, 0);
  });

  test('rows are plain objects, and a missing one is undefined', async () => {
    const query = async (sql: Sql) => sql.get('select 1 as one, null as empty');
    assert.deepEqual(await given.store.read(query, null), { one: 1, empty: null });
    const none = async (sql: Sql) => sql.get(`select id from boxes where id = '$1 ?; --'`);
    assert.equal(await given.store.read(none, null), undefined);
  });

  test('two statements and a wrong number of parameters are refused', async () => {
    const two = async (sql: Sql) => sql.get('select 1 as one; select 2 as two');
    await assert.rejects(given.store.read(two, null), /one statement at a time/);
    const few = async (sql: Sql) => sql.get('select $1 as a, $2 as b', [1]);
    await assert.rejects(given.store.read(few, null), /2 parameters got 1/);
  });

  test('reads while writes go on see only whole transactions', async () => {
    const pair = (index: number) =>
      ['a', 'b'].map((half) => given.store.transact('addBox', { id: `pair-${index}-${half}` }));
    const doomed = (index: number) =>
      given.store.transact('addThenThrow', { id: `pair-doomed-${index}` }).catch(() => {});
    const writes = Array.from({ length: 50 }, (_, index) => [...pair(index), doomed(index)]);
    const seen: number[] = [];
    const query = async (sql: Sql) => {
      const doomed_rows = await countBoxes(sql, { prefix: 'pair-doomed' });
      const first = await countBoxes(sql, { prefix: 'pair-' });
      const second = await countBoxes(sql, { prefix: 'pair-' });
      return { doomed_rows, first, second };
    };
    for (let turn = 0; turn < 20; turn += 1) {
      const { doomed_rows, first, second } = await given.store.read(query, null);
      assert.equal(doomed_rows, 0);
      assert.equal(first, second);
      seen.push(first);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await Promise.all(writes.flat());
    assert.deepEqual(
      seen,
      seen.toSorted((a, b) => a - b),
    );
    assert.equal(await given.store.read(countBoxes, { prefix: 'pair-' }), 100);
  });
}

function concurrency(given: Given): void {
  test('of 200 at once only those that break a constraint fail', async () => {
    const calls = Array.from({ length: 200 }, (_, index) => {
      const id = `many-${String(index).padStart(3, '0')}`;
      if (index % 10 === 3) return given.store.transact('addBox', { id, size: -1 });
      if (index % 10 === 7) return given.store.transact('addItem', { id, box_id: 'nowhere' });
      return given.store.transact('addBox', { id });
    });
    const settled = await Promise.allSettled(calls);
    for (const [index, one] of settled.entries()) {
      const guilty = index % 10 === 3 || index % 10 === 7;
      assert.equal(one.status, guilty ? 'rejected' : 'fulfilled', `call ${index}`);
    }
    assert.equal(await given.store.read(countBoxes, { prefix: 'many-' }), 160);
  });

  test('of 64 that want the same, one gets it', async () => {
    const calls = Array.from({ length: 64 }, (_, index) =>
      given.store.transact('addBox', { id: `race-${index}`, label: 'the one' }),
    );
    const settled = await Promise.allSettled(calls);
    assert.equal(settled.filter((one) => one.status === 'fulfilled').length, 1);
    assert.equal(await given.store.read(countBoxes, { prefix: 'race-' }), 1);
  });

  test('each sees what those before it wrote', async () => {
    const answers = await Promise.all([
      given.store.transact('addIfAbsent', { id: 'first', unless: 'second' }),
      given.store.transact('addIfAbsent', { id: 'second', unless: 'first' }),
    ]);
    assert.deepEqual(answers, [true, false]);
  });
}

function closing(open: OpenStore): void {
  test('closing finishes what was asked for and refuses the rest', async () => {
    const store = await open();
    const asked = store.transact('addBox', { id: 'last' });
    const closed = store.close();
    assert.deepEqual(await asked, { id: 'last' });
    await closed;
    assert.equal((await failureOf(store.transact('addBox', { id: 'x' }))).code, 'store_failing');
    assert.equal((await failureOf(store.read(countBoxes, { prefix: '' }))).code, 'store_failing');
    await store.close();
  });
}

/** The StoreError that a promise rejects with; anything else fails the test. */
export async function failureOf(promise: Promise<unknown> | undefined): Promise<StoreError> {
  try {
    await promise;
  } catch (error) {
    assert.ok(error instanceof StoreError, `not a StoreError: ${String(error)}`);
    return error;
  }
  return assert.fail('it did not fail');
}
