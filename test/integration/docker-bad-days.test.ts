/**
 * Bad days of containers, on the machine's real engine.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { runName } from '../../src/core/run.ts';
import { labelsFor } from '../../src/drivers/docker/container.ts';
import { DriverError, type RunSpec } from '../../src/drivers/driver.ts';
import { until, untilEnded } from '../contracts/driver.ts';
import { type DockerHarness, dockerHarness, no_fence } from '../lib/docker-harness.ts';
import { shellessImage, smallImage } from '../lib/docker-images.ts';
import { needs } from '../lib/parts.ts';

const real = needs('docker');
const never = new AbortController().signal;
const stays = 'echo ready; while :; do sleep 0.1; done';
const code =
  (wanted: string, text = /./) =>
  (error: unknown) =>
    error instanceof DriverError && error.code === wanted && text.test(error.message);
const nameOf = ({ run }: RunSpec) => `ein-${runName(run)}`;

async function ready(harness: DockerHarness, spec: RunSpec): Promise<RunSpec> {
  await harness.driver.start(spec, never);
  await until(harness.clock, 'it is ready', async () => {
    const { text } = await harness.driver.logs(spec.run, 0, 1000);
    return text.includes('ready') || null;
  });
  return spec;
}

test(
  'a container that was removed by hand is gone, and what it printed can still be read',
  real,
  async () => {
    await using harness = await dockerHarness();
    const spec = await ready(harness, harness.shell(stays));
    await harness.docker('rm', '-f', nameOf(spec));
    assert.deepEqual(await harness.driver.observe(), []);
    assert.deepEqual(await harness.driver.logs(spec.run, 0, 100), {
      ...{ text: 'ready\n', next_offset: 6, end: true },
    });
    await harness.driver.stop(spec.run, 'park', 1000);
    await harness.driver.stop(spec.run, 'remove', 1000);
    assert.equal(existsSync(join(harness.folder, runName(spec.run))), false);
  },
);

test(
  'a container of the same name that is not ours is named, and left as it is',
  real,
  async () => {
    await using harness = await dockerHarness();
    const spec = harness.shell(stays);
    const args = ['run', '-d', '--name', nameOf(spec), harness.image, 'sleep', '1000'];
    const id = await harness.docker(...args);
    try {
      await assert.rejects(harness.driver.start(spec, never), code('container_name_taken'));
      assert.deepEqual(await harness.driver.observe(), []);
      await harness.driver.stop(spec.run, 'remove', 0);
      await assert.rejects(harness.driver.dial(spec.run, 'http'), code('port_unreachable'));
      await assert.rejects(harness.driver.files(spec.run), code('exec_failed'));
      assert.equal(await harness.docker('inspect', '-f', '{{.State.Running}}', id), 'true');
      assert.equal(existsSync(join(harness.folder, runName(spec.run))), false);
    } finally {
      await harness.docker('rm', '-f', id);
    }
  },
);

test("another install's runs and volumes are neither listed nor touched", real, async () => {
  await using mine = await dockerHarness();
  await using other = await dockerHarness();
  const spec = await ready(other, {
    ...other.keeping(other.shell('').run),
    argv: ['/bin/sh', '-c', stays],
  });
  assert.deepEqual(await mine.driver.observe(), []);
  await mine.driver.stop(spec.run, 'remove', 0);
  await mine.driver.erase(spec.run.workload_id);
  const next = { ...spec, run: { ...spec.run, run_epoch: 2 } };
  await assert.rejects(mine.driver.start(next, never), code('volume_name_taken'));
  assert.equal((await other.driver.observe())[0]?.state, 'running');
});

test(
  'a program that ignores being asked is made to end after its grace, and not before',
  real,
  async () => {
    await using harness = await dockerHarness();
    const spec = await ready(harness, harness.shell(`trap '' TERM; ${stays}`));
    const begun = harness.clock.monotonic();
    await harness.driver.stop(spec.run, 'park', 700);
    const took_ms = harness.clock.monotonic() - begun;
    assert.ok(took_ms >= 650 && took_ms < 8000, String(took_ms));
    const [seen] = await harness.driver.observe();
    assert.deepEqual(seen?.exit, { code: 137, signal: 'SIGKILL', out_of_memory: false });
    assert.equal(await harness.docker('ps', '-aq', '--filter', `name=${nameOf(spec)}`), '');
  },
);

test(
  'a program that is asked to end may say its last words, which a parked run keeps',
  real,
  async () => {
    await using harness = await dockerHarness();
    const spec = await ready(harness, harness.shell(`trap 'echo bye ü; exit 5' TERM; ${stays}`));
    await harness.driver.stop(spec.run, 'park', 10_000);
    const again = harness.reopen();
    const [seen] = await again.observe();
    assert.deepEqual(seen?.exit, { code: 5, signal: null, out_of_memory: false });
    assert.ok((seen?.started_at ?? 0) > 0);
    assert.deepEqual(await again.logs(spec.run, 0, 100), {
      ...{ text: 'ready\nbye ü\n', next_offset: 13, end: true },
    });
    // It is over: it is not begun again.
    await again.start(spec, never);
    assert.deepEqual(await again.observe(), [seen]);
  },
);

test('too much memory is told apart from a kill', real, async () => {
  await using harness = await dockerHarness();
  const greedy = 'x=$(head -c 200000000 /dev/zero | tr "\\0" x); echo done';
  const memory_bytes = 64 * 2 ** 20;
  const eats = harness.shell(greedy, { memory_bytes });
  await harness.driver.start(eats, never);
  const ended = await untilEnded(harness, eats.run);
  assert.deepEqual(ended.exit, { code: 137, signal: 'SIGKILL', out_of_memory: true });
  await harness.driver.stop(eats.run, 'park', 0);
  assert.equal((await harness.driver.observe())[0]?.exit?.out_of_memory, true);
  await harness.driver.stop(eats.run, 'remove', 0);
  const killed = await ready(harness, harness.shell(stays));
  await harness.docker('kill', nameOf(killed));
  const end = await untilEnded(harness, killed.run);
  assert.deepEqual(end.exit, { code: 137, signal: 'SIGKILL', out_of_memory: false });
});

test(
  'a program beside it that is ended for lack of memory is counted while the run goes on',
  real,
  async () => {
    await using harness = await dockerHarness();
    const memory_bytes = 64 * 2 ** 20;
    const spec = await ready(harness, harness.shell(stays, { memory_bytes }));
    assert.equal((await harness.driver.stats(spec.run)).oom_kills, 0);
    const argv = ['/bin/sh', '-c', 'x=$(head -c 200000000 /dev/zero | tr "\\0" x)'];
    const ask = { argv, env: {}, cwd: null, terminal: null };
    const session = await harness.driver.exec(spec.run, ask, never);
    session.stdout.resume();
    session.stderr?.resume();
    await session.exited;
    assert.ok(((await harness.driver.stats(spec.run)).oom_kills ?? 0) > 0);
    assert.equal((await harness.driver.observe())[0]?.state, 'running');
    // Asked to end, it ends well: what died in it before is not how it ended.
    await harness.docker('stop', '-t', '0', nameOf(spec));
  },
);

test(
  'what was made and never begun, because the program was killed, is cleared and begun anew',
  real,
  async () => {
    await using harness = await dockerHarness();
    const spec = harness.shell(stays);
    const labels = labelsFor({
      ...{ install_id: harness.install_id, run: spec.run, spec_hash: 'old' },
      ...{ ports: [], tcp_ports: {}, workspace: null },
    });
    const words = Object.entries(labels).flatMap(([name, value]) => [
      '--label',
      `${name}=${value}`,
    ]);
    const create = ['create', '--name', nameOf(spec), ...words, harness.image, 'sleep', '1000'];
    await harness.docker(...create);
    assert.deepEqual(await harness.driver.observe(), []);
    assert.equal(await harness.docker('ps', '-aq', '--filter', `name=${nameOf(spec)}`), '');
    await harness.docker(...create);
    await ready(harness, spec);
    assert.equal((await harness.driver.observe())[0]?.spec_hash, spec.spec_hash);
  },
);

test('what is beyond the machine or the image is refused, and leaves nothing', real, async () => {
  await using harness = await dockerHarness();
  const start = (changes: Partial<RunSpec>) =>
    harness.driver.start(harness.shell('true', changes), never);
  await assert.rejects(start({ cpu_millis: 64_000 }), code('start_failed', /CPUs/));
  await assert.rejects(start({ image: null }), code('start_failed', /image/));
  await assert.rejects(start({ network: 'host' }), code('start_failed', /network/));
  await assert.rejects(start({ tcp_ports: { web: 80 } }), code('start_failed', /TCP/));
  await assert.rejects(start({ gpu_uuids: ['GPU-1'] }), code('gpu_not_injected', /1\.41/));
  const mounts = [{ source: '/no/such/thing', target: '/x', writable: false }];
  await assert.rejects(start({ mounts }), code('start_failed', /no\/such\/thing/));
  const bare = harness.openWith({ fence: null });
  const fenced = harness.shell('true', { network: 'fenced' });
  await assert.rejects(bare.start(fenced, never), code('fence_missing'));
  const guard = () => Promise.reject(new Error('nft is not there'));
  const broken = harness.openWith({ fence: { ...no_fence, guard } });
  await assert.rejects(broken.start(fenced, never), code('fence_missing', /nft is not there/));
  assert.deepEqual(await harness.driver.observe(), []);
  assert.equal(
    await harness.docker(
      'ps',
      '-aq',
      '--filter',
      `label=dev.einsora.install=${harness.install_id}`,
    ),
    '',
  );
  const gone = await shellessImage(harness.engine);
  const spec = harness.shell('true', { image: gone });
  await harness.driver.start(spec, never);
  assert.equal((await untilEnded(harness, spec.run)).exit?.code, 127);
});

test(
  'a run has the caps and the hardening that it was given, and nothing of the machine',
  real,
  async () => {
    await using harness = await dockerHarness();
    const script = `
    grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status
    cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null
    ls /dev; ip addr 2>/dev/null | grep -c inet; df /dev/shm | tail -n 1
    cat /proc/1/cmdline; ulimit -c; mount -t tmpfs x /mnt; echo ready`;
    const spec = await ready(harness, harness.shell(script));
    const { text } = await harness.driver.logs(spec.run, 0, 10_000);
    assert.match(text, /NoNewPrivs:\s+1/);
    assert.match(text, /Seccomp:\s+2/);
    // CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE, SYS_CHROOT
    assert.match(text, /CapEff:\s+00000000000404fb/);
    assert.match(text, /^268435456$/m);
    assert.match(text, /docker-init/);
    assert.match(text, /mount: .*(permission denied|not permitted)/);
    const told = JSON.parse(
      await harness.docker('inspect', '-f', '{{json .HostConfig}}', nameOf(spec)),
    );
    assert.deepEqual(told.LogConfig, {
      Type: 'json-file',
      Config: { 'max-file': '3', 'max-size': '10m' },
    });
    assert.deepEqual(
      [
        told.RestartPolicy.Name,
        told.NetworkMode,
        told.PidsLimit,
        told.MemorySwap,
        told.OomScoreAdj,
      ],
      ['no', 'none', 4096, 256 * 2 ** 20, 500],
    );
  },
);

test(
  'a TCP port is published on loopback alone, at a port that the engine chose',
  real,
  async () => {
    await using harness = await dockerHarness();
    const serve = 'while :; do echo hello | nc -l -p 8080; done';
    const changes: Partial<RunSpec> = { network: 'fenced', ports: [], tcp_ports: { web: 8080 } };
    const spec = harness.shell(serve, changes);
    await harness.driver.start(spec, never);
    const said = await until(harness.clock, 'it answers', async () => {
      const socket = await harness.driver.dial(spec.run, 'web').catch(() => null);
      if (socket === null) return null;
      const [first] = await socket.take(1).toArray();
      socket.destroy();
      return first?.toString() ?? null;
    });
    assert.equal(said, 'hello\n');
    const bindings = await harness.docker('port', nameOf(spec));
    assert.match(bindings, /^8080\/tcp -> 127\.0\.0\.1:\d+$/);
    await assert.rejects(harness.driver.dial(spec.run, 'api'), code('port_unreachable'));
  },
);

test(
  'a workspace belongs to the user of the run, and is not filled from the image',
  real,
  async () => {
    await using harness = await dockerHarness();
    const image = await smallImage(harness.engine, 'user', ['USER 1000:1000']);
    const workspace = { target: '/tmp/deep/ws', uid: 1000, gid: 1000, disk_bytes: null };
    const script =
      'id -u; stat -c "%u %g %a" .; echo x > mine && chmod 700 . && pwd; echo ready; sleep 1000';
    const spec = await ready(harness, harness.shell(script, { image, workspace }));
    const { text } = await harness.driver.logs(spec.run, 0, 1000);
    assert.equal(text, '1000\n1000 1000 755\n/tmp/deep/ws\nready\n');
    await harness.driver.stop(spec.run, 'park', 0);
    // Its mode is the user's business from now on.
    const again = harness.shell('stat -c "%u %a" . && cat mine; echo ready; sleep 1000', {
      ...{ image, workspace, run: { ...spec.run, run_epoch: 2 } },
    });
    await ready(harness, again);
    assert.equal((await harness.driver.logs(again.run, 0, 1000)).text, '1000 700\nx\nready\n');
    // With an image of another user, it is that one's.
    await harness.driver.stop(again.run, 'remove', 0);
    const other = harness.shell('stat -c "%u" .; cat mine; echo ready; sleep 1000', {
      workspace: { ...workspace, uid: 0, gid: 0 },
      run: { ...spec.run, run_epoch: 3 },
    });
    await ready(harness, other);
    assert.equal((await harness.driver.logs(other.run, 0, 1000)).text, '0\nx\nready\n');
  },
);

test(
  'output is the same from any offset, over restarts, a lost cursor and much of it at once',
  real,
  async () => {
    await using harness = await dockerHarness();
    const script = `
    i=0; while [ $i -lt 3000 ]; do echo "line $i"; echo "error $i" >&2; i=$((i+1)); done
    echo ready; while :; do sleep 0.1; done`;
    const spec = harness.shell(script);
    await harness.driver.start(spec, never);
    let text = '';
    let offset = 0;
    let driver = harness.driver;
    await until(harness.clock, 'all was read', async () => {
      // Each time by another one, as after a restart in between.
      driver = harness.reopen();
      const piece = await driver.logs(spec.run, offset, 16_384);
      assert.equal(piece.next_offset, offset + Buffer.byteLength(piece.text));
      text += piece.text;
      offset = piece.next_offset;
      return text.includes('ready') || null;
    });
    const lines = text.trim().split('\n');
    assert.equal(lines.length, 6001);
    const of = (word: string) => lines.filter((line) => line.startsWith(word));
    assert.deepEqual(
      of('line'),
      Array.from({ length: 3000 }, (_, index) => `line ${index}`),
    );
    assert.deepEqual(
      of('error'),
      Array.from({ length: 3000 }, (_, index) => `error ${index}`),
    );
    const whole = await driver.logs(spec.run, 0, 1_000_000);
    assert.equal(whole.text, text);
    writeFileSync(join(harness.folder, runName(spec.run), 'out.json'), '{broken');
    assert.equal((await driver.logs(spec.run, 0, 1_000_000)).text, text);
  },
);

test('a run folder that cannot be made is a refusal, and leaves no container', real, async () => {
  await using harness = await dockerHarness();
  const spec = harness.shell('true');
  mkdirSync(join(harness.folder, runName(spec.run)));
  writeFileSync(join(harness.folder, runName(spec.run), 'p'), 'in the way');
  await assert.rejects(harness.driver.start(spec, never), code('start_failed'));
  assert.deepEqual(await harness.driver.observe(), []);
});

test('a socket that leads out of the container is no port of it', real, async () => {
  await using harness = await dockerHarness();
  const lead = 'ln -s /var/run/docker.sock /run/einsora/http.sock; mkdir /run/einsora/web.sock';
  const ports = ['http', 'web'];
  const spec = await ready(harness, harness.shell(`${lead}; ${stays}`, { ports }));
  await assert.rejects(
    harness.driver.dial(spec.run, 'http'),
    code('port_unreachable', /no socket/),
  );
  await assert.rejects(harness.driver.dial(spec.run, 'web'), code('port_unreachable', /no socket/));
});

test(
  'what the engine dropped of a flood is marked, and what came after it is there',
  real,
  async () => {
    await using harness = await dockerHarness();
    const flood = 'line=$(printf "%0999d" 0); yes $line | head -n 45000; echo the end; echo ready';
    const spec = harness.shell(`echo first; sleep 1; ${flood}; while :; do sleep 0.1; done`);
    await harness.driver.start(spec, never);
    await until(harness.clock, 'it began', async () => {
      return (await harness.driver.logs(spec.run, 0, 100)).text === 'first\n' || null;
    });
    const name = nameOf(spec);
    for (let tries = 0; tries < 300; tries += 1) {
      if ((await harness.docker('logs', '--tail', '1', name)).includes('ready')) break;
      await harness.clock.sleep(100);
    }
    const { text } = await harness.driver.logs(spec.run, 0, 200);
    assert.match(text, /^first\n\[einsora: some output was dropped before it was read\]\n0+$/);
    const tail = await harness.driver.logs(spec.run, -40, 40);
    assert.match(tail.text, /\nthe end\nready\n$/);
    assert.equal((await harness.driver.logs(spec.run, tail.next_offset, 100)).text, '');
    assert.ok(tail.next_offset < 31 * 2 ** 20);
  },
);
