/**
 * Text from elsewhere, made safe to show.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { plainText } from './text.ts';

const esc = '\u001b';

test('what moves a cursor, paints, renames a window or rings is dropped', () => {
  const tricks = [
    `${esc}[31mred${esc}[0m`,
    `${esc}[2J${esc}[1;1Hred`,
    `${esc}]0;a title\u0007red`,
    `${esc}]8;;http://example.org${esc}\\red`,
    'r\u0007e\bd\r',
    'r\u009bed\u0085',
  ];
  for (const trick of tricks) assert.equal(plainText(trick), 'red', JSON.stringify(trick));
});

test('text stays text: tabs, lines, letters of every script', () => {
  const text = 'a\tb\n\u00fc \u4f60\u597d \u{1f600} <b>&amp;';
  assert.equal(plainText(text), text);
});

test('no text keeps an escape or another control character', () => {
  const piece = fc.constantFrom(esc, '[', ']', '31', 'm', ';', '\u0007', '\u009b', 'x', '\n', '\\');
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
      for (const character of plainText(pieces.join(''))) {
        const code = character.codePointAt(0) ?? 0;
        const is_control = code < 32 || (code >= 127 && code < 160);
        assert.ok(!is_control || character === '\n' || character === '\t');
      }
    }),
    { seed: 16, numRuns: 1000 },
  );
});
