/**
 * When lines of the log reach their file: together, soon, at once where they matter, and whatever
 * ends the program.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { createFakeClock } from '../../test/lib/fake-clock.ts';
import { exec } from './exec.ts';
import { openLog } from './log.ts';
import { openLogFile } from './log-file.ts';

async function withPath(work: (path: string) => void | Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-log-'));
  try {
    await work(join(folder, 'log'));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function messages(path: string): string[] {
  const lines = readFileSync(path, 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line).msg);
}

test('lines wait for a tenth of a second, and leave together', () =>
  withPath(async (path) => {
    const clock = createFakeClock();
    const log = openLog({ level: 'info', destination: path, clock });
    log.info({}, 'one');
    await clock.advance(60);
    log.info({}, 'two');
    assert.deepEqual(messages(path), []);
    await clock.advance(40);
    assert.deepEqual(messages(path), ['one', 'two']);
    log.info({}, 'three');
    await clock.advance(100);
    assert.deepEqual(messages(path), ['one', 'two', 'three']);
  }));

test('a warning and an error are written at once, after what came before them', () =>
  withPath((path) => {
    const log = openLog({ level: 'info', destination: path, clock: createFakeClock() });
    log.info({}, 'one');
    log.warn({}, 'two');
    assert.deepEqual(messages(path), ['one', 'two']);
    const child = log.child({ request_id: 'r1' });
    child.info({}, 'three');
    child.error({}, 'four');
    assert.deepEqual(messages(path), ['one', 'two', 'three', 'four']);
  }));

test('many lines do not wait', () =>
  withPath((path) => {
    const file = openLogFile(path, createFakeClock());
    const line = `${'x'.repeat(1023)}\n`;
    for (let count = 0; count < 16; count += 1) file.write(line);
    assert.equal(readFileSync(path, 'utf8'), line.repeat(16));
  }));

const ends = {
  'by itself': '',
  'by process.exit': 'process.exit(0)',
  'by an error that nobody catches': 'setImmediate(() => { throw new Error("nobody"); })',
  'by a promise that nobody looks after': 'Promise.reject(new Error("nobody"))',
};

for (const [how, end] of Object.entries(ends)) {
  test(`a program that ends ${how} has written all of its lines`, () =>
    withPath(async (path) => {
      const script = `
        import { openLog } from ${JSON.stringify(join(import.meta.dirname, 'log.ts'))};
        const clock = { after: () => () => {} };
        const log = openLog({ level: 'info', destination: ${JSON.stringify(path)}, clock });
        process.on('exit', log.flush);
        log.info({}, 'one');
        log.info({}, 'two');
        ${end}`;
      await exec(process.execPath, ['--input-type=module', '-e', script], { timeout_ms: 60_000 });
      assert.deepEqual(messages(path), ['one', 'two']);
    }));
}

test('a full disk ends nothing; what waits is written once there is room, what is lost told', () =>
  withPath(async (path) => {
    const clock = createFakeClock();
    let room = 1000;
    const file = openLogFile(path, clock, (to, bytes, from) => {
      if (room === 0) throw new Error('ENOSPC: no space left on device');
      const some = writeSync(to, bytes, from, Math.min(room, bytes.length - from));
      room -= some;
      return some;
    });
    const lines = Array.from({ length: 2000 }, (_, at) => `{"msg":"${at} ${'x'.repeat(1000)}"}\n`);
    for (const line of lines) file.write(line);
    file.flush();
    assert.equal(readFileSync(path, 'utf8').length, 1000);
    room = Number.POSITIVE_INFINITY;
    await clock.advance(200);
    const told = messages(path);
    assert.equal(told.pop(), 'lines of the log were lost');
    const lost = lines.length - told.length;
    assert.deepEqual(
      told.map((one, at) => one.startsWith(`${at} `)),
      told.map(() => true),
    );
    assert.match(readFileSync(path, 'utf8'), new RegExp(`"lost":${lost},`));
    assert.ok(lost > 500 && lost < 1500, `${lost} lines lost`);
  }));
