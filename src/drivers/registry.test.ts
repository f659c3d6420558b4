/**
 * Every driver has an entry, and those that are not built say so.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { driverIsolation } from '../core/trust.ts';
import { drivers, missingDrivers, suits } from './registry.ts';

test('every driver name has an entry', () => {
  assert.deepEqual(Object.keys(drivers).sort(), Object.keys(driverIsolation).sort());
});

test('drivers that are not built are missing with a sentence, on the systems they are for', () => {
  const names = (platform: NodeJS.Platform) => missingDrivers(platform).map((one) => one.driver);
  assert.deepEqual(names('linux'), ['libvirt']);
  assert.deepEqual(names('darwin'), ['macos-native', 'macos-vz', 'macos-container']);
  const [libvirt] = missingDrivers('linux');
  assert.deepEqual([libvirt?.ready, libvirt?.reason], [false, 'driver_not_built']);
  assert.equal(libvirt?.findings[0]?.message, 'The driver libvirt is not part of this version.');
});

test('a driver suits only its own system', () => {
  assert.equal(suits('linux-native', 'darwin'), false);
  assert.equal(suits('sim', 'darwin'), true);
});
