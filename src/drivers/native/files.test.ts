/**
 * Attacks on the files of a run: whatever stands in its folders, nothing of the machine is reached.
 */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { until } from '../../../test/contracts/driver.ts';
import { type NativeHarness, nativeHarness } from '../../../test/lib/native-harness.ts';
import { needs } from '../../../test/lib/parts.ts';
import type { RunFiles } from '../../lib/session.ts';
import type { RunSpec } from '../driver.ts';

const never = new AbortController().signal;
const real = needs('bwrap', 'cgroup');
const refused = { code: 'file_refused' };
const missing = { code: 'file_not_found' };

/** A run that did `script`, and then stays. */
async function having(harness: NativeHarness, script: string): Promise<RunFiles> {
  const spec: RunSpec = harness.shell(`${script}\necho ready; while :; do sleep 0.05; done`);
  await harness.driver.start(spec, never);
  await until(harness.clock, 'it is ready', async () => {
    return (await harness.driver.logs(spec.run, 0, 1000)).text.includes('ready') || null;
  });
  return harness.driver.files(spec.run);
}

const put = (files: RunFiles, path: string, content = 'new') =>
  files.write(path, Readable.from([Buffer.from(content)]), 0o644);

test('links lead round inside the run, never to the machine', real, async () => {
  await using harness = nativeHarness();
  const outside = join(harness.folder, '..', 'outside');
  mkdirSync(outside);
  writeFileSync(join(outside, 'secret'), 'of the host');
  const files = await having(
    harness,
    `cd /tmp; ln -s '${outside}' abs; ln -s '${outside}/secret' file; ln -s /proc/self/root root
     ln -s /../../../../../etc/shadow up; ln -s a b; ln -s b a; mkdir real; echo in > real/x
     ln -s /tmp/real inner; ln -s /tmp/fresh dangling; ln -s ../../tmp/real/x rel`,
  );
  for (const path of ['/tmp/abs/secret', '/tmp/file', '/tmp/up', `${outside}/secret`]) {
    await assert.rejects(files.read(path, 0), missing, path);
    await assert.rejects(files.stat(path), missing, path);
  }
  for (const path of ['/tmp/root/etc/shadow', '/proc/self/root/etc', '/proc/1/root', '/tmp/a']) {
    await assert.rejects(files.read(path, 0), refused, path);
    await assert.rejects(put(files, path), refused, path);
  }
  await assert.rejects(put(files, '/tmp/abs/secret'), missing);
  await assert.rejects(files.makeFolder('/tmp/abs/x'), missing);
  await assert.rejects(files.remove('/tmp/abs/secret'), missing);
  await assert.rejects(files.rename('/tmp/real/x', '/tmp/abs/x'), missing);
  // What stays inside works.
  assert.equal(await text(await files.read('/tmp/inner/x', 0)), 'in\n');
  assert.equal(await text(await files.read('/tmp/rel', 0)), 'in\n');
  assert.equal(await text(await files.read('/../../tmp/./real/../real/x', 0)), 'in\n');
  await put(files, '/tmp/dangling', 'through');
  assert.equal(await text(await files.read('/tmp/fresh', 0)), 'through');
  assert.equal(readFileSync(join(outside, 'secret'), 'utf8'), 'of the host');
  assert.deepEqual(readdirSync(outside), ['secret']);
  const kinds = await files.list('/tmp');
  assert.equal(kinds.find(({ name }) => name === 'abs')?.kind, 'link');
  await files.remove('/tmp/abs');
  assert.deepEqual(readdirSync(outside), ['secret'], 'a link is removed, not what it leads to');
});

test(
  'pipes, devices, sockets and the files of the kernel are neither read nor written',
  real,
  async () => {
    await using harness = nativeHarness();
    const files = await having(harness, 'mkfifo /tmp/pipe; ln -s /tmp/pipe /tmp/to-pipe');
    const paths = ['/tmp/pipe', '/tmp/to-pipe', '/dev/zero', '/dev/null', '/dev/tty'];
    for (const path of [...paths, '/proc/self/environ', '/proc/sysrq-trigger', '/dev/pts/ptmx']) {
      await assert.rejects(files.read(path, 0), refused, path);
      await assert.rejects(put(files, path), refused, path);
    }
    await assert.rejects(files.list('/proc'), refused);
    await assert.rejects(files.list('/proc/1/fd'), refused);
    await assert.rejects(files.stat('/sys/kernel'), missing);
  },
);

test('what the run may only read is only read', real, async () => {
  await using harness = nativeHarness();
  const files = await having(harness, 'true');
  for (const path of ['/usr/x', '/x', '/etc/x', '/usr/bin/env']) {
    await assert.rejects(put(files, path), refused, path);
  }
  await assert.rejects(files.remove('/usr/bin/env'), refused);
  await assert.rejects(files.rename('/usr/bin/env', '/tmp/env'), refused);
  await assert.rejects(files.remove('/'), refused);
  assert.ok((await files.stat('/usr/bin/env')).size > 0);
});

test('a folder that is swapped for a link while it is used leads nowhere', real, async () => {
  await using harness = nativeHarness();
  const outside = join(harness.folder, '..', 'outside');
  mkdirSync(outside);
  writeFileSync(join(outside, 'x'), 'of the host');
  const files = await having(
    harness,
    `mkdir -p /tmp/swap/real; echo in > /tmp/swap/real/x; cd /tmp/swap; ln -s real now
     (while :; do ln -sfn '${outside}' now; mv -T now d 2>/dev/null; rm -rf d; mkdir d;
       echo in > d/x; mv -T d now 2>/dev/null; rm -rf now; ln -s real now; done) 2>/dev/null &`,
  );
  const seen = new Set<string>();
  for (let tries = 0; tries < 300; tries += 1) {
    const read = files.read('/tmp/swap/now/x', 0).then(text);
    seen.add(await read.catch((error) => String(error.code)));
    await put(files, '/tmp/swap/now/y').catch(() => {});
    await files.makeFolder('/tmp/swap/now/f').catch(() => {});
    await harness.clock.sleep(1);
  }
  assert.ok(![...seen].some((one) => one.includes('host')), [...seen].join());
  assert.deepEqual(readdirSync(outside), ['x']);
  assert.equal(readFileSync(join(outside, 'x'), 'utf8'), 'of the host');
});
