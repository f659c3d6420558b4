/**
 * Figures made readable.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatAgo, formatBytes, formatDuration, formatMemory } from './format.ts';

test('bytes are counted in thousands', () => {
  assert.deepEqual([0, 999, 1000, 93_400_000, 150_000_000, 2.5e12, 5e15].map(formatBytes), [
    '0 B',
    '999 B',
    '1.0 kB',
    '93.4 MB',
    '150 MB',
    '2.5 TB',
    '5000 TB',
  ]);
});

test('memory is counted in powers of two', () => {
  assert.deepEqual([2 ** 31, 2 ** 30 * 1.5, 2 ** 29, 0].map(formatMemory), [
    '2 GiB',
    '1.5 GiB',
    '512 MiB',
    '0 MiB',
  ]);
});

test('durations have the two largest units', () => {
  const times = [350, 12_400, 192_000, 7_260_000, 47 * 3600_000, 72 * 3600_000];
  assert.deepEqual(times.map(formatDuration), [
    '350 ms',
    '12.4 s',
    '3m 12s',
    '2h 1m',
    '47h 0m',
    '3 days',
  ]);
});

test('ages are round', () => {
  const ages = [0, 1999, 12_000, 180_000, 2 * 3600_000, 4 * 86_400_000];
  assert.deepEqual(ages.map(formatAgo), [
    'just now',
    'just now',
    '12 s ago',
    '3 min ago',
    '2 h ago',
    '4 days ago',
  ]);
});

test('rounding never gives a thousand of a unit that has a larger one', () => {
  for (const bytes of [999_499, 999_500, 999_999, 999_999_999]) {
    assert.doesNotMatch(formatBytes(bytes), /^1000/, String(bytes));
  }
});

test('seconds never read as sixty', () => {
  for (const ms of [59_949, 59_950, 59_999, 60_000, 999.4, 999.6]) {
    assert.doesNotMatch(formatDuration(ms), /^60\.0 s$|^1000 ms$/, String(ms));
  }
});
