/**
 * What every driver's programs beside a run, and its files, must do. Part of `driverContract`.
 *
 * Invariants: a run is given by the harness and has a POSIX shell in it; nothing is left running.
 */
import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import type { RunKey } from '../../src/core/run.ts';
import { type Driver, DriverError } from '../../src/drivers/driver.ts';
import { seededRandom } from '../../src/lib/random.ts';
import type { ExecAsk, ExecSession, RunFiles } from '../../src/lib/session.ts';
import { type DriverHarness, newRun, until } from './driver.ts';

type Body = (harness: DriverHarness) => Promise<void>;

const never = new AbortController().signal;
const refused = (error: unknown) => error instanceof DriverError && error.code === 'exec_failed';
const coded = (code: string) => (error: unknown) =>
  error instanceof DriverError && error.code === code;

/** A run that programs can be started beside. */
async function running(harness: DriverHarness): Promise<RunKey> {
  const { driver, clock } = harness;
  const run = newRun();
  await driver.start(harness.serving(run), never);
  await until(clock, 'a program can be started', async () => {
    const session = await driver.exec(run, asking(['true']), never).catch(() => null);
    session?.stdout.resume();
    session?.stderr?.resume();
    return session === null ? null : await session.exited;
  });
  return run;
}

function asking(argv: string[], changes: Partial<ExecAsk> = {}): ExecAsk {
  return { argv, env: {}, cwd: null, terminal: null, ...changes };
}

function shell(driver: Driver, run: RunKey, script: string, changes: Partial<ExecAsk> = {}) {
  return driver.exec(run, asking(['sh', '-c', script], changes), never);
}

/** What it printed on both streams, and how it ended. */
async function whole(session: ExecSession) {
  const err = session.stderr === null ? '' : text(session.stderr);
  const out = await text(session.stdout);
  return { out: out.replaceAll('\r', ''), err: await err, ...(await session.exited) };
}

/** Resolves once it has printed `word`; what came before is dropped. */
function untilSaid(session: ExecSession, word: string): Promise<void> {
  return new Promise((resolve, reject) => {
    let said = '';
    session.stdout.on('data', (chunk) => {
      said += chunk;
      if (said.includes(word)) resolve();
    });
    session.stdout.once('end', () => reject(new Error(`it only said ${said}`)));
  });
}

const folder = '/tmp/einsora-contract';
const write = (files: RunFiles, name: string, content: string, mode = 0o644) =>
  files.write(`${folder}/${name}`, Readable.from([Buffer.from(content)]), mode);

const fileTests: [string, Body][] = [
  [
    'a file that was written is there: for reading, with its mode, and for programs of the run',
    async (harness) => {
      const run = await running(harness);
      const files = await harness.driver.files(run);
      await files.makeFolder(folder);
      await write(files, 'a b', 'one ü two\n', 0o755);
      assert.equal(await text(await files.read(`${folder}/a b`, 0)), 'one ü two\n');
      assert.equal(await text(await files.read(`${folder}/a b`, 7)), 'two\n');
      const { name, kind, size, mode } = await files.stat(`${folder}/a b`);
      assert.deepEqual([name, kind, size, mode], ['a b', 'file', 11, 0o755]);
      const seen = await whole(
        await harness.driver.exec(run, asking(['cat', `${folder}/a b`]), never),
      );
      assert.equal(seen.out, 'one ü two\n');
    },
  ],
  [
    'folders are listed, files renamed over others, and removed',
    async (harness) => {
      const files = await harness.driver.files(await running(harness));
      await files.makeFolder(folder);
      await files.makeFolder(`${folder}/inner`);
      await write(files, 'one', '1');
      await write(files, 'two', '22');
      await files.rename(`${folder}/two`, `${folder}/one`);
      const listed = (await files.list(folder)).map(({ name, kind, size }) =>
        kind === 'folder' ? [name, kind] : [name, kind, size],
      );
      assert.deepEqual(listed.sort(), [
        ['inner', 'folder'],
        ['one', 'file', 2],
      ]);
      await assert.rejects(files.remove(folder), coded('file_refused'));
      await files.remove(`${folder}/one`);
      await files.remove(`${folder}/inner`);
      await files.remove(folder);
      await assert.rejects(files.stat(folder), coded('file_not_found'));
    },
  ],
  [
    'an upload that is cut off leaves the old file, and nothing beside it',
    async (harness) => {
      const files = await harness.driver.files(await running(harness));
      await files.makeFolder(folder);
      await write(files, 'kept', 'the old one');
      const cut = new Readable({ read() {} });
      cut.push(Buffer.alloc(100_000));
      const writing = files.write(`${folder}/kept`, cut, 0o644);
      setImmediate(() => cut.destroy(new Error('it was cut off')));
      await assert.rejects(writing);
      assert.equal(await text(await files.read(`${folder}/kept`, 0)), 'the old one');
      assert.equal((await files.list(folder)).length, 1);
    },
  ],
  [
    'what is not there, and what is no file, is told apart',
    async (harness) => {
      const files = await harness.driver.files(await running(harness));
      await files.makeFolder(folder);
      await assert.rejects(files.read(`${folder}/none`, 0), coded('file_not_found'));
      await assert.rejects(files.list(`${folder}/none`), coded('file_not_found'));
      await assert.rejects(files.read(folder, 0), coded('file_refused'));
      await assert.rejects(write(files, 'none/x', 'x'), coded('file_not_found'));
      await assert.rejects(files.makeFolder(folder), coded('file_refused'));
      await assert.rejects(files.stat('tmp'), coded('file_refused'));
      await assert.rejects(files.remove(`${folder}/none`), coded('file_not_found'));
    },
  ],
  [
    'five megabytes go in and come out unchanged',
    async (harness) => {
      const files = await harness.driver.files(await running(harness));
      const given = Buffer.from(seededRandom(6).bytes(5_000_000));
      await files.write('/tmp/big', Readable.from(pieces(given)), 0o600);
      assert.ok((await buffer(await files.read('/tmp/big', 0))).equals(given));
    },
  ],
];

export const sessionTests: [string, Body][] = [
  [
    'a program beside a run tells what it prints, on which stream, and how it ended',
    async (harness) => {
      const { driver } = harness;
      const run = await running(harness);
      const said = await whole(await shell(driver, run, 'echo out; echo err >&2; exit 7'));
      assert.deepEqual(said, { out: 'out\n', err: 'err\n', code: 7, signal: null });
      const fine = await whole(await driver.exec(run, asking(['echo', 'a  b', "it's"]), never));
      assert.deepEqual([fine.out, fine.code], ["a  b it's\n", 0]);
    },
  ],
  [
    'a program that is not there is refused, or ends as a shell would say it',
    async (harness) => {
      const run = await running(harness);
      const asked = harness.driver.exec(run, asking(['no-such-program']), never);
      const code = await asked.then(
        async (session) => (await whole(session)).code,
        (error) => refused(error) && 127,
      );
      assert.equal(code, 127);
    },
  ],
  [
    'stdin goes in unchanged and is closed by its half',
    async (harness) => {
      const run = await running(harness);
      const given = Buffer.from(seededRandom(5).bytes(3_000_000));
      const session = await harness.driver.exec(run, asking(['cat']), never);
      session.stderr?.resume();
      session.stdin.end(given);
      assert.ok((await buffer(session.stdout)).equals(given));
      assert.deepEqual(await session.exited, { code: 0, signal: null });
    },
  ],
  [
    'a program has the environment and the folder that were asked for',
    async (harness) => {
      const run = await running(harness);
      const how = { env: { EINSORA_TEST: "two  words' and $more" }, cwd: '/tmp' };
      const said = await whole(await shell(harness.driver, run, 'pwd; printenv EINSORA_TEST', how));
      assert.equal(said.out, "/tmp\ntwo  words' and $more\n");
    },
  ],
  [
    'a terminal has the size that was asked for, and gets another one',
    async (harness) => {
      const run = await running(harness);
      const terminal = { columns: 91, rows: 31 };
      const script = 'stty size; echo ready; read line; stty size; exit 5';
      const session = await shell(harness.driver, run, script, { terminal });
      let said = '';
      session.stdout.on('data', (chunk) => {
        if (said === '') {
          session.resize(44, 14);
        }
        said += chunk;
        if (said.includes('ready') && !said.includes('typed')) session.stdin.write('typed\n');
      });
      assert.deepEqual(await session.exited, { code: 5, signal: null });
      assert.match(said.replaceAll('\r', ''), /^31 91\nready\n(?:typed\n)+14 44\n$/);
    },
  ],
  [
    'a terminal at which nothing more is typed stays one until its program ends',
    async (harness) => {
      const run = await running(harness);
      const terminal = { columns: 80, rows: 24 };
      const script = 'echo first; read line; sleep 0.3; stty size; exit 6';
      const session = await shell(harness.driver, run, script, { terminal });
      session.stdin.end();
      const [said, exited] = [text(session.stdout), session.exited];
      assert.deepEqual(await exited, { code: 6, signal: null });
      assert.match((await said).replaceAll('\r', ''), /first\n[\s\S]*24 80\n/);
    },
  ],
  [
    'ten megabytes come whole to a reader that is slow to begin',
    async (harness) => {
      const run = await running(harness);
      const session = await shell(harness.driver, run, 'head -c 10000000 /dev/zero');
      session.stderr?.resume();
      await harness.clock.sleep(300);
      assert.equal((await buffer(session.stdout)).length, 10_000_000);
      assert.equal((await session.exited).code, 0);
    },
  ],
  [
    'a killed program ends with all that it started',
    async (harness) => {
      const run = await running(harness);
      const script = 'sleep 1000 & echo ready; sleep 1000';
      const session = await shell(harness.driver, run, script);
      await untilSaid(session, 'ready');
      session.kill();
      assert.notEqual((await session.exited).code, 0);
      assert.equal((await harness.driver.observe())[0]?.state, 'running');
    },
  ],
  [
    'a call that is called off ends its program',
    async (harness) => {
      const run = await running(harness);
      const calling = new AbortController();
      const ask = asking(['sh', '-c', 'echo ready; sleep 1000']);
      const session = await harness.driver.exec(run, ask, calling.signal);
      await untilSaid(session, 'ready');
      calling.abort();
      assert.notEqual((await session.exited).code, 0);
    },
  ],
  [
    'nothing that was started beside a run outlives it',
    async (harness) => {
      const run = await running(harness);
      const session = await shell(harness.driver, run, 'echo ready; sleep 1000');
      await untilSaid(session, 'ready');
      await harness.driver.stop(run, 'park', 0);
      assert.notEqual((await session.exited).code, 0);
      await assert.rejects(harness.driver.exec(run, asking(['true']), never), refused);
      const nowhere = { workload_id: '0'.repeat(26), replica: 0, run_epoch: 9 };
      await assert.rejects(harness.driver.exec(nowhere, asking(['true']), never), refused);
    },
  ],
  [
    'many programs at once do not mix up',
    async (harness) => {
      const run = await running(harness);
      const numbers = Array.from({ length: 12 }, (_, number) => number);
      const said = await Promise.all(
        numbers.map(async (number) =>
          whole(await shell(harness.driver, run, `echo ${number}; exit ${number}`)),
        ),
      );
      assert.deepEqual(
        said.map(({ out, code }) => [out, code]),
        numbers.map((number) => [`${number}\n`, number]),
      );
    },
  ],
  ...fileTests,
];

function* pieces(whole: Buffer): Generator<Buffer> {
  for (let from = 0; from < whole.length; from += 65_536) yield whole.subarray(from, from + 65_536);
}
