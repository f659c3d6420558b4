/**
 * Fair share: a total order, the same however its input was sorted, in which nobody starves.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { decayed, fairOrder, half_life_ms, type Use, type Waiting } from './fair-share.ts';

const one = (id: string, tenant_id: string, over: Partial<Waiting> = {}): Waiting => ({
  ...{ id, tenant_id, creator_id: `${tenant_id}-user`, created_at: 0, weight: 1 },
  ...over,
});
const use = (tenant_id: string, weighted_s: number, user_id = `${tenant_id}-user`): Use => ({
  ...{ tenant_id, user_id, weighted_s },
});
const ids = (waiting: Waiting[], uses: Use[] = []) =>
  [...fairOrder(waiting, uses)].map((turn) => turn.id);

const anyWaiting: fc.Arbitrary<Waiting[]> = fc
  .array(
    fc.record({
      tenant_id: fc.constantFrom('a', 'b', 'c'),
      creator: fc.constantFrom('x', 'y'),
      created_at: fc.nat(5),
      weight: fc.constantFrom(1, 2, 8),
    }),
    { maxLength: 30 },
  )
  .map((all) =>
    all.map(({ creator, ...rest }, index) => ({
      ...{ ...rest, id: `w${index}`, creator_id: `${rest.tenant_id}-${creator}` },
    })),
  );
const anyUses: fc.Arbitrary<Use[]> = fc.array(
  fc
    .record({
      tenant_id: fc.constantFrom('a', 'b', 'c', 'gone'),
      user: fc.constantFrom('x', 'y'),
      weighted_s: fc.nat(100_000),
    })
    .map(({ user, ...rest }) => ({ ...rest, user_id: `${rest.tenant_id}-${user}` })),
  { maxLength: 6 },
);
function always(check: (waiting: Waiting[], uses: Use[]) => void): void {
  fc.assert(fc.property(anyWaiting, anyUses, check), { seed: 5, numRuns: 500 });
}

test('everybody has exactly one turn', () => {
  always((waiting, uses) => {
    assert.deepEqual(ids(waiting, uses).toSorted(), waiting.map((turn) => turn.id).toSorted());
  });
});

test('how the input was sorted decides nothing', () => {
  always((waiting, uses) => {
    const order = ids(waiting, uses);
    assert.deepEqual(ids(waiting.toReversed(), uses.toReversed()), order);
    assert.deepEqual(ids([...fairOrder(waiting, uses)], uses), order);
  });
});

test('of one user, what is older comes first', () => {
  always((waiting, uses) => {
    const order = [...fairOrder(waiting, uses)];
    for (const user of new Set(waiting.map((turn) => turn.creator_id))) {
      const own = order.filter((turn) => turn.creator_id === user);
      for (const [index, turn] of own.entries()) {
        const before = own[index - 1];
        assert.ok(before === undefined || before.created_at <= turn.created_at);
      }
    }
  });
});

test('a further workload of somebody brings none of their earlier ones forward', () => {
  always((waiting, uses) => {
    const before = ids(waiting, uses);
    const late = one('late', 'a', { creator_id: 'a-x', created_at: 9 });
    const after = ids([...waiting, late], uses);
    for (const turn of waiting.filter((own) => own.creator_id === 'a-x')) {
      assert.ok(after.indexOf(turn.id) >= before.indexOf(turn.id));
    }
  });
});

test('whoever used the least comes first, and age decides between equals', () => {
  const waiting = [one('old', 'heavy', { created_at: 1 }), one('new', 'light', { created_at: 2 })];
  assert.deepEqual(ids(waiting), ['old', 'new']);
  assert.deepEqual(ids(waiting, [use('heavy', 10)]), ['new', 'old']);
});

test('between the users of a tenant it is the same rule', () => {
  const waiting = [
    one('hers', 'lab', { creator_id: 'her', created_at: 1 }),
    one('his', 'lab', { creator_id: 'him', created_at: 2 }),
  ];
  assert.deepEqual(ids(waiting, [use('lab', 10, 'her')]), ['his', 'hers']);
});

test('a thousand of one do not come before the first of another', () => {
  const many = Array.from({ length: 1000 }, (_, index) => one(`m${index}`, 'many'));
  const order = ids([...many, one('single', 'other', { created_at: 99 })]);
  assert.equal(order.indexOf('single'), 1);
});

test('turns of equal users alternate, by the weight of what they ask', () => {
  const waiting = [
    ...['a1', 'a2', 'a3', 'a4'].map((id) => one(id, 'a')),
    ...['b1', 'b2'].map((id) => one(id, 'b', { created_at: 1, weight: 2 })),
  ];
  assert.deepEqual(ids(waiting), ['a1', 'b1', 'a2', 'a3', 'b2', 'a4']);
});

test('nobody starves: against users who go on using, everyone is first one day', () => {
  const waiting = ['a', 'b', 'c'].map((tenant) => one(tenant, tenant));
  const used = new Map([
    ['a', 0],
    ['b', 1e6],
    ['c', 5e6],
  ]);
  const firsts = new Set<string>();
  for (let day = 0; day < 120; day += 1) {
    const uses = [...used].map(([tenant, weighted_s]) => use(tenant, weighted_s));
    const [first = ''] = ids(waiting, uses);
    firsts.add(first);
    for (const [tenant, s] of used) {
      used.set(tenant, decayed(s, 24 * 3600_000) + (tenant === first ? 86_400 : 0));
    }
  }
  assert.deepEqual([...firsts].sort(), ['a', 'b', 'c']);
});

test('use counts half after seven days, and never more than it was', () => {
  assert.equal(decayed(100, half_life_ms), 50);
  assert.equal(decayed(100, 2 * half_life_ms), 25);
  assert.equal(decayed(100, -5), 100);
});
