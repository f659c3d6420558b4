/**
 * Tries with a name: slower and slower, bounded, and nobody locked out.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createFakeClock } from '../../../test/lib/fake-clock.ts';
import { EinsoraError } from '../../contract/errors.ts';
import { limits } from '../../contract/limits.ts';
import { Secret } from '../../lib/secret.ts';
import { createTries, delayAfter } from './tries.ts';

function open() {
  let passed_ms = 0;
  const clock = {
    ...createFakeClock(),
    monotonic: () => passed_ms,
    pass(ms: number) {
      passed_ms += ms;
    },
  };
  const tries = createTries({ clock, pepper: new Secret('pepper') });
  const allowed = (name: string, mark: string | null = null) => {
    try {
      return tries.count(name, mark);
    } catch (error) {
      assert.ok(error instanceof EinsoraError && error.code === 'sign_in_slow');
      return null;
    }
  };
  return { clock, tries, allowed };
}

test('the delay doubles to a minute and stays there', () => {
  const free = limits.sign_in_free_tries;
  const delays = [1, free - 1, free, free + 1, free + 2, free + 6, free + 1000].map(delayAfter);
  assert.deepEqual(delays, [0, 0, 1000, 2000, 4000, 60_000, 60_000]);
});

test('whoever guesses for a day gets no more tries than one a minute, and still one', () => {
  const { clock, allowed } = open();
  let tried = 0;
  for (let second = 0; second < 24 * 3600; second += 1) {
    if (allowed('grace') !== null) tried += 1;
    clock.pass(1000);
  }
  assert.ok(tried > 1000 && tried <= 24 * 60 + 20, String(tried));
});

test('a right password ends the delay; a refused try does not lengthen it', () => {
  const { clock, allowed } = open();
  for (let count = 0; count < limits.sign_in_free_tries; count += 1) allowed('grace');
  for (let count = 0; count < 100; count += 1) assert.equal(allowed('grace'), null);
  clock.pass(1000);
  allowed('grace')?.succeeded();
  for (let count = 0; count < limits.sign_in_free_tries; count += 1) {
    assert.notEqual(allowed('grace'), null);
  }
});

test('a known browser has tries of its own; a mark of another name or a made-up one has not', () => {
  const { tries, allowed } = open();
  for (let count = 0; count < limits.sign_in_free_tries; count += 1) allowed('grace');
  assert.equal(allowed('grace'), null);
  assert.equal(allowed('grace', tries.markOf('linus')), null);
  assert.equal(allowed('grace', 'made up'), null);
  assert.notEqual(allowed('grace', tries.markOf('grace')), null);
});

test('names are forgotten after a while without a try, and beyond so many', () => {
  const { clock, allowed } = open();
  const use = (name: string) => {
    for (let count = 0; count < limits.sign_in_free_tries; count += 1) allowed(name);
  };
  use('grace');
  clock.pass(15 * 60_000 + 1);
  use('grace');
  use('linus');
  assert.equal(allowed('grace'), null);
  for (let count = 0; count < limits.sign_in_names_watched - 1; count += 1) allowed(`n${count}`);
  assert.notEqual(allowed('linus'), null, 'the one tried longest ago made room');
});
