/**
 * The log: one line of JSON an entry, for its owner alone, with what was bound and never too much.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { createFakeClock } from '../../test/lib/fake-clock.ts';
import { describeError, type Log, openLog } from './log.ts';
import { Secret } from './secret.ts';

function written(say: (log: Log) => void, level = 'info') {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-log-'));
  const path = join(folder, 'below', 'program.log');
  try {
    const log = openLog({ level, destination: path, clock: createFakeClock() });
    say(log);
    log.flush();
    const mode = statSync(path).mode & 0o777;
    const lines = readFileSync(path, 'utf8')
      .split('\n')
      .filter((line) => line !== '');
    return { mode, lines: lines.map((line) => JSON.parse(line) as Record<string, unknown>) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

test('each entry is one line with its fields and those that were bound', () => {
  const { lines, mode } = written((log) => {
    const own = log.child({ request_id: 'r1' }).child({ tenant: 'local' });
    own.info({ status: 200 }, 'a request\nwith a line break');
    log.warn({}, 'another');
  });
  assert.equal(mode, 0o600);
  const [first, second] = lines;
  assert.deepEqual(
    [first?.request_id, first?.tenant, first?.status, first?.msg],
    ['r1', 'local', 200, 'a request\nwith a line break'],
  );
  assert.deepEqual([second?.request_id, second?.msg], [undefined, 'another']);
});

test('a level that was not asked for is not written', () => {
  const { lines } = written((log) => {
    log.debug({}, 'no');
    log.info({}, 'no');
    log.error({}, 'yes');
  }, 'warn');
  assert.deepEqual(
    lines.map((line) => line.msg),
    ['yes'],
  );
});

test('no field floods the log', () => {
  const { lines } = written((log) => {
    log.info({ long: 'x'.repeat(100_000) }, 'm');
    log.child({ bound: 'y'.repeat(100_000) }).info({}, 'm');
  });
  for (const line of lines) assert.ok(JSON.stringify(line).length < 1000);
});

test('a secret that gets in is printed as redacted', () => {
  const { lines } = written((log) => {
    const secret = new Secret('hunter2');
    log.info({ secret } as unknown as Record<string, string>, `${secret}`);
  });
  assert.match(JSON.stringify(lines), /redacted/);
  assert.doesNotMatch(JSON.stringify(lines), /hunter2/);
});

test('an error is described with its causes, in one line each', () => {
  const error = new Error('outer', { cause: new Error('inner', { cause: 'the very reason' }) });
  assert.equal(describeError(error), 'outer: inner: the very reason');
  assert.equal(describeError('just text'), 'just text');
});
