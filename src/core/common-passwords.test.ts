import assert from 'node:assert/strict';
import { test } from 'node:test';
import { normalPassword, passwordProblem } from './common-passwords.ts';

test('a password is judged by characters, not by bytes or code units', () => {
  assert.match(passwordProblem('ab3defg', 'ada') ?? '', /7 characters, 8 are the fewest/);
  assert.equal(passwordProblem('ab3defgh', 'ada'), null);
  assert.equal(passwordProblem('🦉🐢🦎🐙🦑🦐🦀🐡', 'ada'), null, 'eight of them');
  assert.match(passwordProblem('🦉🐢🦎🐙🦑🦐🦀', 'ada') ?? '', /7 characters/);
  assert.equal(passwordProblem('xyz '.repeat(256), 'ada'), null);
  assert.match(passwordProblem(`${'xyz '.repeat(256)}!`, 'ada') ?? '', /1025 characters/);
});

test('the commonest, the monotonous and the own name are refused, however they are typed', () => {
  for (const bad of [
    'password1',
    'PASSWORD1',
    'Qwerty123',
    '12345678',
    'correcthorsebatterystaple',
  ]) {
    assert.match(passwordProblem(bad, 'ada') ?? '', /commonest/, bad);
  }
  for (const bad of ['zzzzzzzzzz', 'xoxoxoxoxo']) {
    assert.match(passwordProblem(bad, 'ada') ?? '', /repeated/, bad);
  }
  assert.match(passwordProblem('Ada.Lovelace', 'ada.lovelace') ?? '', /name/);
  assert.equal(passwordProblem('correct horse battery stable', 'ada'), null);
});

test('the same characters are the same password, whichever way they were composed', () => {
  const composed = 'p\u00e5ssw\u00f6rter';
  const decomposed = 'pa\u030asswo\u0308rter';
  assert.notEqual(composed, decomposed);
  assert.equal(normalPassword(composed), normalPassword(decomposed));
});
