/**
 * Files of real containers: read, listed, written whole or not at all, and kept inside.
 */
import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { DriverError } from '../../src/drivers/driver.ts';
import type { RunFiles } from '../../src/lib/session.ts';
import { type DockerHarness, dockerHarness } from '../lib/docker-harness.ts';
import { needs } from '../lib/parts.ts';
import { textOf } from '../lib/streams.ts';

const real = needs('docker');
const never = new AbortController().signal;

async function filesOf(harness: DockerHarness, script: string): Promise<RunFiles> {
  const spec = harness.shell(`${script}; echo ready; while :; do sleep 1; done`);
  await harness.driver.start(spec, never);
  while (!(await harness.driver.logs(spec.run, 0, 1000)).text.includes('ready')) {
    await harness.clock.sleep(20);
  }
  return harness.driver.files(spec.run);
}

const code =
  (wanted: string, text = /./) =>
  (error: unknown) =>
    error instanceof DriverError && error.code === wanted && text.test(error.message);

test(
  'what is there is listed with kind, size, mode and moment, whatever its name',
  real,
  async () => {
    await using harness = await dockerHarness();
    const make = `mkdir -p /w/sub && cd /w && printf 12345 > 'a b' && chmod 640 'a b' &&
    ln -s 'a b' link &&
    : > "$(printf 'two\\nlines')" && : > -dash && touch -d @1700000000 sub`;
    const files = await filesOf(harness, make);
    const all = await files.list('/w');
    const of = (name: string) => all.find((one) => one.name === name);
    assert.deepEqual(all.map(({ name }) => name).sort(), [
      '-dash',
      'a b',
      'link',
      'sub',
      'two\nlines',
    ]);
    assert.deepEqual([of('a b')?.kind, of('a b')?.size, of('a b')?.mode], ['file', 5, 0o640]);
    assert.deepEqual([of('link')?.kind, of('sub')?.kind], ['link', 'folder']);
    assert.equal(of('sub')?.modified_at, 1_700_000_000_000);
    const through = await files.stat('/w/link');
    assert.deepEqual([through.name, through.kind, through.size], ['link', 'file', 5]);
    assert.equal((await files.stat('/')).kind, 'folder');
    await assert.rejects(files.list('/w/none'), code('file_not_found'));
    await assert.rejects(files.list('/w/a b'), code('file_refused', /Not a directory/));
    await assert.rejects(files.stat('/w/none'), code('file_not_found'));
    await assert.rejects(files.stat('relative'), code('file_refused'));
  },
);

test('megabytes go in and come out as they were, from any offset', real, async () => {
  await using harness = await dockerHarness();
  const files = await filesOf(harness, 'mkdir /w');
  const bytes = Buffer.alloc(8 * 2 ** 20, 'some text to carry, ');
  await files.write('/w/big', Readable.from([bytes]), 0o640);
  const facts = await files.stat('/w/big');
  assert.deepEqual([facts.size, facts.mode], [bytes.length, 0o640]);
  assert.equal(await textOf(await files.read('/w/big', 0)), bytes.toString());
  const rest = await textOf(await files.read('/w/big', bytes.length - 10));
  assert.equal(rest, bytes.subarray(-10).toString());
  assert.equal(await textOf(await files.read('/w/big', bytes.length + 5)), '');
  await files.write('/w/empty', Readable.from([]), 0o600);
  assert.equal(await textOf(await files.read('/w/empty', 0)), '');
});

test('content that breaks off leaves the old file, and nothing beside it', real, async () => {
  await using harness = await dockerHarness();
  const files = await filesOf(harness, 'mkdir /w; echo old > /w/kept');
  async function* broken() {
    yield Buffer.alloc(100_000, 'x');
    throw new Error('the sender went away');
  }
  await assert.rejects(
    files.write('/w/kept', Readable.from(broken()), 0o644),
    code('file_refused', /went away/),
  );
  assert.equal(await textOf(await files.read('/w/kept', 0)), 'old\n');
  assert.deepEqual(
    (await files.list('/w')).map(({ name }) => name),
    ['kept'],
  );
});

test(
  'a link out of a folder is followed inside the container, never on the machine',
  real,
  async () => {
    await using harness = await dockerHarness();
    const files = await filesOf(
      harness,
      'mkdir /w; ln -s /etc/passwd /w/p; ln -s /etc/hostname /w/h',
    );
    assert.match(await textOf(await files.read('/w/p', 0)), /^root:x:0:0:root:\/root:\/bin\/sh/);
    await files.write('/w/p', Readable.from(['through']), 0o644);
    assert.equal(await textOf(await files.read('/etc/passwd', 0)), 'through');
    assert.equal((await files.stat('/w/p')).size, 7);
    await files.remove('/w/p');
    assert.equal((await files.stat('/etc/passwd')).size, 7);
  },
);

test('folders are made, things renamed and removed, and each refusal says why', real, async () => {
  await using harness = await dockerHarness();
  const files = await filesOf(harness, 'mkdir /w; mknod /w/pipe p');
  await files.makeFolder('/w/a');
  await assert.rejects(files.makeFolder('/w/a'), code('file_refused', /File exists/));
  await assert.rejects(files.makeFolder('/w/x/y'), code('file_not_found'));
  await files.write('/w/a/one', Readable.from(['1']), 0o644);
  await files.rename('/w/a/one', '/w/a/two');
  assert.deepEqual(
    (await files.list('/w/a')).map(({ name }) => name),
    ['two'],
  );
  await assert.rejects(files.rename('/w/none', '/w/b'), code('file_not_found'));
  await assert.rejects(files.read('/w/a', 0), code('file_refused', /folder/));
  await assert.rejects(files.read('/w/pipe', 0), code('file_refused'));
  await assert.rejects(files.write('/w/a', Readable.from(['1']), 0o644), code('file_refused'));
  await assert.rejects(
    files.write('/no/where', Readable.from(['1']), 0o644),
    code('file_not_found'),
  );
  await assert.rejects(files.remove('/w/a'), code('file_refused', /not empty/));
  await files.remove('/w/a/two');
  await files.remove('/w/a');
  await assert.rejects(files.remove('/w/a'), code('file_not_found'));
  const on_proc = files.write('/proc/version', Readable.from(['x']), 0o644);
  await assert.rejects(on_proc, code('file_refused'));
});
