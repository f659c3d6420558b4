/** Batches against an engine that fails on demand. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRunner, type Outcome } from './batch.ts';
import type { Sql } from './sql.ts';
import { openMemoryConnection } from './sqlite.ts';
import { type Connection, EngineBroken } from './sqlite-sql.ts';

const table = {
  add: async (sql: Sql, args: { id: number; parent: number | null }) => {
    await sql.run('insert into t values ($1, $2)', [args.id, args.parent]);
    return args.id;
  },
};

/** A connection on which `fault` may throw instead of running a statement; `ran` lists them all. */
function faulty(fault: (text: string, ran: readonly string[]) => number | null) {
  const real = openMemoryConnection();
  real.exec(`create table t (id integer primary key,
    parent integer references t (id) deferrable initially deferred)`);
  const ran: string[] = [];
  const connection: Connection = {
    get isTransaction() {
      return real.isTransaction;
    },
    exec: (text) => real.exec(text),
    close: () => real.close(),
    prepare: (text) => {
      const statement = real.prepare(text);
      return {
        setReturnArrays: (enabled) => statement.setReturnArrays(enabled),
        columns: () => statement.columns(),
        get: (...params) => statement.get(...params),
        iterate: (...params) => statement.iterate(...params),
        all: (...params) => statement.all(...params),
        run: (...params) => {
          ran.push(text);
          const errcode = fault(text, ran);
          if (errcode !== null) throw Object.assign(new Error('injected'), { errcode });
          return statement.run(...params);
        },
      };
    },
  };
  const ids = () => {
    const rows = real.prepare('select id from t order by id').iterate();
    return [...rows].map((row) => (row as { id: number }).id);
  };
  return { runner: createRunner(connection, table), ran, ids };
}

const job = (id: number, parent: number | null = null) => ({
  name: 'add',
  args: JSON.stringify({ id, parent }),
});
const codes = (outcomes: Outcome[]) =>
  outcomes.map((outcome) => (outcome.ok ? 'done' : outcome.failure.code));

test('many transactions cost one commit', async () => {
  const { runner, ran, ids } = faulty(() => null);
  assert.deepEqual(codes(await runner.run([job(1), job(2), job(3)])), ['done', 'done', 'done']);
  assert.equal(ran.filter((text) => text === 'commit').length, 1);
  assert.deepEqual(ids(), [1, 2, 3]);
});

test('a constraint that speaks up at COMMIT fails only the transaction that broke it', async () => {
  const { runner, ids } = faulty(() => null);
  const outcomes = await runner.run([job(1), job(2, 99), job(3, 1)]);
  assert.deepEqual(codes(outcomes), ['done', 'foreign', 'done']);
  assert.deepEqual(ids(), [1, 3]);
});

test('a disk that is full at COMMIT makes each run alone, and those that fit are kept', async () => {
  let commits = 0;
  const { runner, ids } = faulty((text) => {
    if (text !== 'commit') return null;
    commits += 1;
    return commits === 1 || commits === 3 ? 13 : null;
  });
  const outcomes = await runner.run([job(1), job(2), job(3)]);
  assert.deepEqual(codes(outcomes), ['done', 'store_full', 'done']);
  assert.deepEqual(ids(), [1, 3]);
});

test('an I/O error at COMMIT is thrown, not answered, and nothing runs again', async () => {
  const { runner, ran } = faulty((text) => (text === 'commit' ? 10 | (4 << 8) : null));
  await assert.rejects(runner.run([job(1), job(2)]), EngineBroken);
  assert.equal(ran.filter((text) => text.startsWith('begin')).length, 1);
});

test('an I/O error in any statement is thrown', async () => {
  for (const count of [1, 2]) {
    for (const at of ['begin immediate', 'insert into t values (?, ?)', 'release one']) {
      const { runner, ran } = faulty((text) => (text === at ? 10 : null));
      const jobs = [job(1), job(2)].slice(0, count);
      if (count === 1 && at === 'release one') continue;
      await assert.rejects(runner.run(jobs), EngineBroken, at);
      assert.equal(ran.includes('commit'), false);
    }
  }
});

test('a store that another process holds refuses the whole batch after one wait', async () => {
  const { runner, ran, ids } = faulty((text) => (text === 'begin immediate' ? 5 : null));
  const outcomes = await runner.run([job(1), job(2)]);
  assert.deepEqual(codes(outcomes), ['store_failing', 'store_failing']);
  assert.equal(ran.length, 1);
  assert.deepEqual(ids(), []);
});
