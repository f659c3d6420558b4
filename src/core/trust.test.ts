/**
 * The trust matrix, written out: every level, driver and sharing there is (ADR-0014).
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type DriverName,
  driverIsolation,
  hostSees,
  mayRun,
  type Sharing,
  type TrustLevel,
  trustLevel,
} from './trust.ts';

const drivers = Object.keys(driverIsolation) as DriverName[];
const sharings: Sharing[] = ['private', 'invite-only', 'community'];

/** Where each level of trust may run, by isolation: the sharings that allow it. */
const matrix: Record<TrustLevel, Record<'strong' | 'weak', Sharing[]>> = {
  owner: { strong: sharings, weak: sharings },
  invited: { strong: ['invite-only', 'community'], weak: [] },
  community: { strong: ['community'], weak: [] },
};
const isolation: Record<DriverName, 'strong' | 'weak'> = {
  sim: 'weak',
  'linux-native': 'weak',
  'macos-native': 'weak',
  docker: 'weak',
  libvirt: 'strong',
  'macos-vz': 'strong',
  'macos-container': 'strong',
};

test('the matrix answers every case as it is written', () => {
  let cases = 0;
  for (const level of Object.keys(matrix) as TrustLevel[]) {
    for (const driver of drivers) {
      for (const sharing of sharings) {
        const expected = matrix[level][isolation[driver]].includes(sharing);
        assert.equal(mayRun(level, driver, sharing), expected, `${level} ${driver} ${sharing}`);
        cases += 1;
      }
    }
  }
  assert.equal(cases, 3 * 7 * 3);
});

test('isolation follows from the driver by a table that nobody else fills', () => {
  assert.deepEqual({ ...driverIsolation }, isolation);
});

test('members of the owning tenant are owners, invited ones invited, all else community', () => {
  const machine = { owner_tenant_id: 'a', invited_tenant_ids: ['b'] };
  assert.deepEqual(
    ['a', 'b', 'c', ''].map((tenant) => trustLevel(tenant, machine)),
    ['owner', 'invited', 'community', 'community'],
  );
  const both = { owner_tenant_id: 'a', invited_tenant_ids: ['a'] };
  assert.equal(trustLevel('a', both), 'owner');
});

test('what the host sees is said for every driver, and never less than it is', () => {
  for (const driver of drivers) {
    const said = hostSees(driver);
    if (driver === 'sim') assert.match(said, /pretends/);
    else assert.equal(said.startsWith('everything'), isolation[driver] === 'weak', driver);
  }
});
