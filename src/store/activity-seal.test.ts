/**
 * Seals over the activity log: whole while nobody touches it, and broken by whatever anybody does
 * to it in the database.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { act, anchorsOf, checkLog } from '../../test/lib/activity-tale.ts';
import { addTenant, createRig, type Rig, select, storeKinds } from '../../test/lib/rig.ts';
import {
  type Anchor,
  commitmentOf,
  no_hash,
  type Seal,
  type SealedRow,
  sealHash,
} from '../core/activity-chain.ts';
import { digest } from '../lib/secret.ts';
import { rows_per_seal } from './activity-seal.ts';
import type { Row, SqlValue } from './sql.ts';

async function given(kind: (typeof storeKinds)[number], body: (rig: Rig) => Promise<void>) {
  const rig = await createRig({ kind });
  try {
    await body(rig);
  } finally {
    await rig.close();
  }
}

const write = (rig: Rig, text: string, params: SqlValue[] = []) =>
  rig.store.transact('write', { text, params });
const codes = (report: { problems: { code: string }[] }) => report.problems.map(({ code }) => code);

/** Five seals of three rows, the first four anchored. */
async function tellTale(rig: Rig): Promise<Anchor[]> {
  const { sealer } = rig.apiDeps.activity;
  for (let number = 1; number <= 5; number += 1) {
    await act(rig, 3);
    await sealer.tick();
    if (number === 4) await sealer.anchor();
  }
  return anchorsOf(rig);
}

for (const kind of storeKinds) {
  describe(`sealing on a store in ${kind}`, () => {
    test('every row is sealed once, in order, and the log proves itself', () =>
      given(kind, async (rig) => {
        const anchors = await tellTale(rig);
        const report = await checkLog(rig, anchors);
        assert.deepEqual(report.problems, []);
        assert.deepEqual([report.seals, report.rows, report.anchors], [5, 15, 1]);
        await rig.apiDeps.activity.sealer.tick();
        assert.equal((await checkLog(rig, anchors)).seals, 5);
        const rows = await select(rig.store, 'select id from activity where seq is null');
        assert.deepEqual(rows, []);
      }));

    test('more rows than a seal takes become several seals in one tick', () =>
      given(kind, async (rig) => {
        await act(rig, 450);
        await rig.apiDeps.activity.sealer.tick();
        const report = await checkLog(rig, []);
        const seals = Math.ceil(450 / rows_per_seal);
        assert.deepEqual([report.problems, report.seals, report.rows], [[], seals, 450]);
      }));

    test('who a user was can be erased, and the log still proves itself', () =>
      given(kind, async (rig) => {
        const anchors = await tellTale(rig);
        const { tenant_id, user_id } = rig.ids;
        let left = 1;
        while (left > 0) {
          ({ left } = await rig.store.transact('eraseActivity', { tenant_id, user_id }));
        }
        assert.deepEqual((await checkLog(rig, anchors)).problems, []);
        const rows = await select(rig.store, 'select * from activity');
        for (const row of rows) {
          assert.deepEqual(
            [row.user_id, row.actor, row.proof_id, row.salt, row.details],
            [null, null, null, null, '{}'],
          );
        }
        // An erased row cannot be given to somebody else.
        await write(rig, "update activity set actor = 'user:eve' where seq = 4");
        assert.deepEqual(codes(await checkLog(rig, anchors)), ['row_changed']);
      }));

    test('whatever is done to the tables is found', () =>
      given(kind, async (rig) => {
        const anchors = await tellTale(rig);
        await addTenant(rig.store, 'other', 'tenant-2');
        const whole = await snapshot(rig);
        await fc.assert(
          fc.asyncProperty(tampering, async (change) => {
            await restore(rig, whole);
            const changed = await change.apply(rig);
            if (!changed) return;
            const report = await checkLog(rig, anchors);
            assert.notDeepEqual(report.problems, [], change.name);
          }),
          { seed: 5, numRuns: kind === 'memory' ? 300 : 25 },
        );
        await restore(rig, whole);
        assert.deepEqual((await checkLog(rig, anchors)).problems, []);
      }));
  });
}

test('the sealer goes on after rows were numbered behind its back, and the check tells', () =>
  given('memory', async (rig) => {
    const anchors = await tellTale(rig);
    await write(rig, 'delete from activity_seals where number = 5');
    await act(rig, 2);
    await rig.apiDeps.activity.sealer.tick();
    const report = await checkLog(rig, anchors);
    assert.ok(codes(report).includes('row_missing'));
    const open = await select(rig.store, 'select id from activity where seq is null');
    assert.deepEqual(open, []);
  }));

test('an anchor that is forged, or of another seal, is told', () =>
  given('memory', async (rig) => {
    const [anchor] = await tellTale(rig);
    assert.ok(anchor);
    assert.deepEqual(codes(await checkLog(rig, [{ ...anchor, at: 1 }])), ['anchor_forged']);
    assert.deepEqual(codes(await checkLog(rig, [{ ...anchor, number: 9 }])), ['anchor_forged']);
  }));

type Tables = { activity: Row[]; activity_seals: Row[] };

async function snapshot(rig: Rig): Promise<Tables> {
  return {
    activity: await select(rig.store, 'select * from activity order by id'),
    activity_seals: await select(rig.store, 'select * from activity_seals order by number'),
  };
}

async function restore(rig: Rig, tables: Tables): Promise<void> {
  for (const [name, rows] of Object.entries(tables)) {
    await write(rig, `delete from ${name}`);
    for (const row of rows) await insert(rig, name, row);
  }
}

async function insert(rig: Rig, table: string, row: Row): Promise<void> {
  const names = Object.keys(row);
  const places = names.map((_, index) => `$${index + 1}`).join(', ');
  await write(rig, `insert into ${table} (${names.join(', ')}) values (${places})`, [
    ...Object.values(row),
  ]);
}

type Tampering = { name: string; apply(rig: Rig): Promise<boolean> };

const texts = ['id', 'via', 'request_id', 'route', 'target', 'outcome', 'details', 'commitment'];
const personal = ['user_id', 'actor', 'proof_id', 'client_request_id', 'salt'];
const seq = fc.integer({ min: 1, max: 15 });
const number = fc.integer({ min: 1, max: 5 });
const anchored = fc.integer({ min: 1, max: 4 });

const simple = (name: string, text: string, params: SqlValue[]): Tampering => ({
  name: `${name} ${JSON.stringify(params)}`,
  apply: async (rig) => (await write(rig, text, params)) > 0,
});

const tampering: fc.Arbitrary<Tampering> = fc.oneof(
  fc
    .tuple(fc.constantFrom(...texts, ...personal), seq, fc.string({ minLength: 1, maxLength: 8 }))
    .filter(([, , text]) => !text.includes('\0'))
    .map(([column, at, text]) =>
      simple(
        `set ${column}`,
        `update activity set ${column} = $1 where seq = $2
           and (${column} is null or ${column} <> $1)`,
        [text, at],
      ),
    ),
  fc
    .tuple(fc.constantFrom('user_id', 'actor', 'salt', 'target'), seq)
    .map(([column, at]) =>
      simple(
        `forget ${column}`,
        `update activity set ${column} = null where seq = $1 and ${column} is not null`,
        [at],
      ),
    ),
  fc
    .tuple(seq, fc.integer({ min: 1, max: 1e6 }))
    .map(([at, by]) => simple('move', 'update activity set at = at + $2 where seq = $1', [at, by])),
  seq.map((at) => simple('delete row', 'delete from activity where seq = $1', [at])),
  seq.map((at) =>
    simple('give away', "update activity set tenant_id = 'tenant-2' where seq = $1", [at]),
  ),
  number.map((at) => simple('delete seal', 'delete from activity_seals where number = $1', [at])),
  fc
    .tuple(number, fc.constantFrom('at', 'first_seq', 'last_seq'), fc.constantFrom(-1, 1, 100))
    .map(([at, column, by]) =>
      simple(
        `shift ${column}`,
        `update activity_seals set ${column} = ${column} + $2 where number = $1`,
        [at, by],
      ),
    ),
  fc
    .tuple(seq, seq)
    .filter(([a, b]) => a !== b)
    .map(([a, b]) => ({ name: `swap ${a} and ${b}`, apply: (rig: Rig) => swapRows(rig, a, b) })),
  anchored.map((at) => ({ name: `cut from seal ${at} on`, apply: (rig: Rig) => cut(rig, at) })),
  seq
    .filter((at) => at <= 12)
    .map((at) => ({ name: `rewrite from row ${at}`, apply: (rig: Rig) => rewrite(rig, at) })),
);

async function swapRows(rig: Rig, a: number, b: number): Promise<boolean> {
  await write(rig, 'update activity set seq = 1000 where seq = $1', [a]);
  await write(rig, 'update activity set seq = $2 where seq = $1', [b, a]);
  await write(rig, 'update activity set seq = $1 where seq = 1000', [b]);
  return true;
}

/** The log's end is cut off cleanly: seals and rows. */
async function cut(rig: Rig, number: number): Promise<boolean> {
  await write(rig, 'delete from activity where seq > $1', [3 * (number - 1)]);
  await write(rig, 'delete from activity_seals where number >= $1', [number]);
  return true;
}

/** Whoever owns the store changes a row and makes all seals after it anew. */
async function rewrite(rig: Rig, at: number): Promise<boolean> {
  await write(rig, "update activity set outcome = 'forged', actor = 'user:eve' where seq = $1", [
    at,
  ]);
  const rows = await select<Row & SealedRow>(rig.store, 'select * from activity order by seq');
  const seals = await select<Row & Seal>(rig.store, 'select * from activity_seals order by number');
  let hash = no_hash;
  for (const seal of seals) {
    const own = rows
      .filter((row) => row.seq >= seal.first_seq && row.seq <= seal.last_seq)
      .map((row) => ({ ...row, commitment: commitmentOf(row, row.salt ?? '', digest) }));
    hash = sealHash(hash, seal, own, digest);
    for (const row of own) {
      await write(rig, 'update activity set commitment = $2 where seq = $1', [
        row.seq,
        row.commitment,
      ]);
    }
    await write(rig, 'update activity_seals set hash = $2 where number = $1', [seal.number, hash]);
  }
  return true;
}
