/**
 * Asking for what must not be seen: the terminal's own echo is off before the question appears.
 */
import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { askLine, askSecret, readLines } from './ask-secret.ts';
import type { CliError } from './cli-error.ts';
import { loadConfig } from './config.ts';
import { type Context, processIo } from './io.ts';

/** A terminal that keeps what was shown, and whether it echoed by itself at that moment. */
function terminal() {
  const shown: { text: string; echoes: boolean }[] = [];
  let echoes = true;
  const stdin = Object.assign(new PassThrough(), {
    isTTY: true,
    setRawMode(on: boolean) {
      echoes = !on;
    },
  });
  const stderr = new PassThrough();
  stderr.write = (text: string) => {
    shown.push({ text, echoes });
    return true;
  };
  const io = { ...processIo(), stdin, stderr };
  const context: Context = { config: loadConfig({}, {}), io };
  return { stdin, shown, context, isEchoing: () => echoes };
}

test('what is typed the moment the question appears is not echoed, and the terminal is as before', async () => {
  const { stdin, shown, context, isEchoing } = terminal();
  const asked = askSecret(context, 'Password: ');
  stdin.write('a secret\r');
  assert.equal((await asked).reveal(), 'a secret');
  assert.deepEqual(shown[0], { text: 'Password: ', echoes: false });
  assert.equal(shown.map(({ text }) => text).join(''), 'Password: \n');
  assert.equal(isEchoing(), true);
});

test('lines pasted at once answer one question each; backspace and arrows are keys', async () => {
  const { stdin, shown, context } = terminal();
  stdin.write('adx\u007fa\rfirst\rsecond\r');
  assert.equal(await askLine(context, 'Name: '), 'ada');
  assert.equal((await askSecret(context, 'One: ')).reveal(), 'first');
  const second = askSecret(context, 'Two: ');
  stdin.write('\u001b[A');
  assert.equal((await second).reveal(), 'second');
  assert.equal(shown.map(({ text }) => text).join(''), 'Name: adx\b \ba\nOne: \nTwo: \n');
});

test('Ctrl-C leaves, and gives the terminal back', async () => {
  const { stdin, context, isEchoing } = terminal();
  const asked = askSecret(context, 'Password: ');
  stdin.write('abc\u0003');
  await assert.rejects(asked, (error: CliError) => error.exit === 'interrupted');
  assert.equal(isEchoing(), true);
});

test('a pipe gives so many lines as are wanted, or says how many it has', async () => {
  const { stdin, context } = terminal();
  const piped = Object.assign(stdin, { isTTY: false });
  piped.end('one\r\ntwo\n');
  const lines = await readLines(context, 2);
  assert.deepEqual(
    lines.map((line) => line.reveal()),
    ['one', 'two'],
  );
  const other = terminal();
  Object.assign(other.stdin, { isTTY: false }).end('one\n');
  await assert.rejects(readLines(other.context, 2), /1 lines, 2 are wanted/);
});
