/** What Postgres says, and what the store makes of it; without a server. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  Again,
  checkType,
  createTexts,
  meaningOf,
  openSession,
  type PgAnswer,
  type PgConnection,
  parserOf,
} from './postgres-sql.ts';
import { type Sql, StoreError } from './sql.ts';

const said = (code: string, constraint?: string) =>
  Object.assign(new Error(`it said ${code}`), { code, ...(constraint ? { constraint } : {}) });

test('each error code of the server has its meaning', () => {
  const of = (code: string, constraint?: string) => {
    const meaning = meaningOf(said(code, constraint));
    assert.ok(meaning instanceof StoreError, code);
    return [meaning.code, meaning.constraint];
  };
  assert.deepEqual(of('23505', 'tenants_slug'), ['unique', 'tenants_slug']);
  assert.deepEqual(of('23505', 'tenants_pkey'), ['unique', null]);
  assert.deepEqual(of('23503', 'runs_machine_id_fkey'), ['foreign', 'runs_machine_id_fkey']);
  assert.deepEqual(of('23514', 'holds_cpu'), ['check', 'holds_cpu']);
  assert.deepEqual(of('23502'), ['check', null]);
  assert.deepEqual(of('53100'), ['store_full', null]);
  for (const code of ['57014', '55P03', '25006']) assert.deepEqual(of(code)[0], 'store_failing');
  for (const code of ['40001', '40P01']) assert.ok(meaningOf(said(code)) instanceof Again, code);
  const other = said('42P01');
  assert.equal(meaningOf(other), other);
  assert.equal(meaningOf('text').message, 'text');
});

test('only texts and whole numbers come back', () => {
  assert.equal(parserOf(20)('42'), 42);
  assert.equal(parserOf(25)('42'), '42');
  assert.throws(() => parserOf(20)('9007199254740993'), /no safe integer/);
  for (const type of [20, 23, 25, 1043]) checkType(type, 'fine');
  for (const type of [16, 700, 1700, 1184]) {
    assert.throws(() => checkType(type, 'odd'), /the column odd .* cast it/);
  }
});

test('texts of few parameters are prepared by name, up to a limit, and others are not', () => {
  const texts = createTexts();
  assert.deepEqual(texts.find('select $1 as a'), { param_count: 1, name: 's1' });
  assert.deepEqual(texts.find('select $1 as a'), { param_count: 1, name: 's1' });
  const places = Array.from({ length: 30 }, (_, index) => `$${index + 1}`).join(', ');
  const list = `select 1 as a where 1 in (${places})`;
  assert.deepEqual(texts.find(list), { param_count: 30, name: null });
  for (let number = 2; number <= 500; number += 1) texts.find(`select ${number} as a`);
  assert.deepEqual(texts.find('select 501 as a'), { param_count: 0, name: null });
  assert.throws(() => texts.find('commit'), /not a statement of a transaction/);
});

/** A connection whose answers the test gives. */
function scripted(answers: (PgAnswer | Error)[]): PgConnection & { asked: string[] } {
  const asked: string[] = [];
  return {
    asked,
    async ask(text) {
      asked.push(text);
      await new Promise((resolve) => setImmediate(resolve));
      const answer = answers.shift() ?? { rows: [], count: 0 };
      if (answer instanceof Error) throw answer;
      return answer;
    },
    tell: async () => [],
    state: () => 'open',
    lost: () => null,
    backend: () => 1,
    over: new Promise(() => {}),
    end: async () => {},
  };
}

test('work is waited for while a statement is on its way, and not a moment longer', async () => {
  const session = openSession(scripted([]), createTexts(), 'write');
  const settled = await session.settle(async () => {
    for (let turn = 0; turn < 5; turn += 1) await session.sql.run('delete from t');
    // Many steps that need only microtasks are no waiting.
    for (let turn = 0; turn < 1000; turn += 1) await null;
    return Promise.all([session.sql.run('delete from t'), session.sql.run('delete from t')]);
  });
  assert.deepEqual(settled, { ok: true, value: [0, 0] });
  for (const work of [() => new Promise(() => {}), thenForever(session.sql)]) {
    const stuck = await session.settle(work);
    assert.ok(!stuck.ok && /something other than sql/.test(String(stuck.error)));
  }
});

function thenForever(sql: Sql): () => Promise<unknown> {
  return async () => {
    await sql.run('delete from t');
    await new Promise(() => {});
  };
}

test('after a statement failed none is asked any more, and the end waits for all answers', async () => {
  const connection = scripted([said('23514', 'c')]);
  const session = openSession(connection, createTexts(), 'write');
  await session.settle(async () => {
    void session.sql.run('insert into t values (1)');
    return null;
  });
  await session.end();
  const failure = session.failure();
  assert.ok(failure instanceof StoreError && failure.constraint === 'c');
  await assert.rejects(session.sql.run('delete from t'), /after its transaction had ended/);
  assert.deepEqual(connection.asked, ['insert into t values (1)']);
});
