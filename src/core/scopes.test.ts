import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { hasRole, lowerRole, roles } from './roles.ts';
import { hasScope, type Reach, reachNow, reachOfNew, scopes } from './scopes.ts';

const role = fc.constantFrom(...roles);
const someScopes = fc.option(fc.uniqueArray(fc.constantFrom(...scopes), { minLength: 1 }));
const moment = fc.option(fc.integer({ min: 1, max: 1000 }));
const reach: fc.Arbitrary<Reach> = fc.record(
  { role, scopes: someScopes, expires_at: moment },
  { noNullPrototype: true },
);
const asked = fc.record(
  {
    role,
    scopes: fc.uniqueArray(fc.constantFrom(...scopes), { minLength: 1 }),
    expires_at: moment,
  },
  { requiredKeys: [] },
);

/** Does one reach nowhere that the other does not? Asked of each single thing. */
function isWithin(child: Reach, parent: Reach): boolean {
  const acts = scopes.every(
    (scope) => !hasScope(child.scopes, scope) || hasScope(parent.scopes, scope),
  );
  const lasts = parent.expires_at === null || (child.expires_at ?? Infinity) <= parent.expires_at;
  return acts && lasts && hasRole(parent.role, child.role);
}

test('no chain of tokens, however asked for, reaches further than its beginning', () => {
  fc.assert(
    fc.property(reach, fc.array(asked, { maxLength: 6 }), (first, wishes) => {
      let held = first;
      for (const wish of wishes) {
        const made = reachOfNew(held, wish, 500);
        if (made.ok) held = made.reach;
        assert.ok(isWithin(held, first));
      }
    }),
    { seed: 1, numRuns: 500 },
  );
});

test('what a proof reaches itself can be asked for, and left out it is given', () => {
  fc.assert(
    fc.property(reach, (held) => {
      const same = {
        role: held.role,
        scopes: held.scopes ?? undefined,
        expires_at: held.expires_at,
      };
      assert.deepEqual(reachOfNew(held, same, 500), { ok: true, reach: held });
      const left_out = reachOfNew(held, {}, 500);
      const expires_at = Math.min(500, held.expires_at ?? 500);
      assert.deepEqual(left_out, { ok: true, reach: { ...held, expires_at } });
    }),
    { seed: 2, numRuns: 200 },
  );
});

test('a role falls with its user and does not rise again above what the token was made with', () => {
  const token: Reach = { role: 'member', scopes: null, expires_at: null };
  assert.equal(reachNow(token, 'viewer').role, 'viewer');
  assert.equal(reachNow(token, 'operator').role, 'member');
  for (const one of roles) {
    for (const other of roles) {
      const lower = lowerRole(one, other);
      assert.ok(hasRole(one, lower) && hasRole(other, lower));
    }
  }
});

test('writing includes reading of the same area, and nothing else', () => {
  for (const held of scopes) {
    for (const needed of scopes) {
      const [area, mode] = held.split(':');
      const wanted = needed.split(':');
      const expected = wanted[0] === area && (wanted[1] === 'read' || mode === 'write');
      assert.equal(hasScope([held], needed), expected, `${held} for ${needed}`);
    }
  }
  assert.equal(hasScope(null, 'accounts:write'), true);
  assert.equal(hasScope([], null), true, 'who am I');
});
