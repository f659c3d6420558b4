/** How a text becomes SQLite's, and which constraint an error names. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StoreError } from './sql.ts';
import { openMemoryConnection } from './sqlite.ts';
import { cacheStatements, openSession } from './sqlite-sql.ts';
import { rewrite } from './statements.ts';

test('parameters are rewritten outside of strings, names and comments', () => {
  const text = `select '$1 ''$2', "$3", $12, $4 -- $5\n /* $6 */ from t where a = $1;`;
  const expected = `select '$1 ''$2', "$3", ?12, ?4 -- $5\n /* $6 */ from t where a = ?1;`;
  assert.deepEqual(rewrite(text), { rewritten: expected, param_count: 12 });
});

test('parameters that stand once each and in order have no numbers', () => {
  const inserted = `insert into t values ($1, 'it is $9', $2), ($3, "$1", $4)`;
  const expected = `insert into t values (?, 'it is $9', ?), (?, "$1", ?)`;
  assert.deepEqual(rewrite(inserted), { rewritten: expected, param_count: 4 });
  for (const other of ['$2, $1', '$1, $1', '$1, $3', '$2']) {
    const rewritten = other.replaceAll('$', '?');
    assert.equal(rewrite(`values (${other})`).rewritten, `values (${rewritten})`);
  }
});

test('a limit is hidden from the planner, which would compile anew for each', () => {
  const text = `select a as limit_$1 from t where b = 'limit $9' LIMIT $2 offset $3`;
  const expected = `select a as limit_? from t where b = 'limit $9' limit (? + 0) offset ?`;
  assert.deepEqual(rewrite(text), { rewritten: expected, param_count: 3 });
});

test('what is no statement of a transaction is refused', () => {
  for (const text of ['begin', 'commit', 'savepoint x', 'pragma a = 1', 'attach x as y', '']) {
    assert.throws(() => rewrite(text), /not a statement of a transaction/, text);
  }
  assert.throws(() => rewrite('delete from a; delete from b'), /one statement at a time/);
  assert.equal(rewrite(`select ';' as a; `).param_count, 0);
});

async function failure(text: string): Promise<StoreError> {
  const connection = openMemoryConnection();
  connection.exec(`
    create table t (id text primary key, a integer, b integer, c integer unique);
    create unique index t_ab on t (a, b);
    create unique index t_sum on t (a + b);
    create table u (x integer);
    create unique index u_low on u (x) where x < 10;
    create unique index u_high on u (x) where x > 10;
    create table v (id text primary key, slug text not null constraint v_slug unique, n bigint,
      m bigint, constraint v_pair unique (n, m));
    insert into v values ('one', 'a', 1, 2);
    insert into t values ('one', 1, 2, 3);
    insert into u values (1);`);
  const session = openSession(cacheStatements(connection));
  await assert.rejects(session.sql.run(text));
  const error = session.failure();
  assert.ok(error instanceof StoreError, String(error));
  connection.close();
  return error;
}

test('a unique index is named where its columns tell it, and null stands for the rest', async () => {
  const cases: [string, string | null][] = [
    [`insert into t values ('two', 1, 2, 4)`, 't_sum'],
    [`insert into t values ('one', 5, 5, 5)`, null],
    [`insert into t values ('two', 7, 7, 3)`, null],
    [`insert into u values (1)`, null],
    [`insert into v values ('two', 'a', 3, 4)`, 'v_slug'],
    [`insert into v values ('two', 'b', 1, 2)`, 'v_pair'],
  ];
  for (const [text, constraint] of cases) {
    const error = await failure(text);
    assert.deepEqual([error.code, error.constraint], ['unique', constraint], text);
  }
});
