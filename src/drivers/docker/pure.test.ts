/**
 * The pure parts of the docker driver: names of images, frames, archives, log entries, bodies,
 * judgements, figures, listings, findings.
 */
import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import fc from 'fast-check';
import { newRun } from '../../../test/contracts/driver.ts';
import type { RunSpec } from '../driver.ts';
import type { Container } from './container.ts';
import { labelsFor, readLabels } from './container.ts';
import { createBody } from './create-body.ts';
import type { Engine, EngineVersion } from './engine.ts';
import { asStartError, EngineDown, EngineRefusal } from './engine-error.ts';
import { readListing } from './file-scripts.ts';
import { createFrameReader, type Frame, splitFrames } from './frames.ts';
import { gpusSeen } from './gpus.ts';
import { isBuiltHere, pullTargetOf } from './image-reference.ts';
import { judge } from './judge.ts';
import { countSeen, entryOf, sinceOf } from './log-entries.ts';
import { type EngineInfo, judgeEngine, probeDocker } from './probe.ts';
import { readStats } from './stats.ts';
import { folderArchive, readEntry } from './tar.ts';

test('an image without a tag is its latest, a port of its registry is no tag, a digest wins', () => {
  const of = (name: string) => Object.values(pullTargetOf(name)).join(' | ');
  assert.equal(of('debian'), 'debian | latest');
  assert.equal(of('docker.io/library/debian:12'), 'docker.io/library/debian | 12');
  assert.equal(of('127.0.0.1:5000/a/b'), '127.0.0.1:5000/a/b | latest');
  assert.equal(of('a/b:1@sha256:00'), 'a/b | sha256:00');
  assert.deepEqual([isBuiltHere('localhost/x:1'), isBuiltHere('localhost:5000/x')], [true, false]);
});

function frame(kind: number, text: string): Buffer {
  const payload = Buffer.from(text);
  const header = Buffer.from([kind, 0, 0, 0, 0, 0, 0, 0]);
  header.writeUInt32BE(payload.length, 4);
  return Buffer.concat([header, payload]);
}

test('frames come whole and in order, wherever they are cut', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.constantFrom(1, 2), fc.string({ maxLength: 40 })), { maxLength: 8 }),
      fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 1 }),
      (messages, cuts) => {
        const bytes = Buffer.concat(messages.map(([kind, text]) => frame(kind, text)));
        const read = createFrameReader();
        const found: Frame[] = [];
        for (let at = 0, turn = 0; at < bytes.length; turn += 1) {
          const size = cuts[turn % cuts.length] ?? 1;
          found.push(...read(bytes.subarray(at, at + size)));
          at += size;
        }
        assert.deepEqual(
          found.map(({ is_error, payload }) => [is_error ? 2 : 1, payload.toString()]),
          messages,
        );
      },
    ),
  );
});

test('what is no frame breaks both streams, with an error', async () => {
  const { stdout, stderr } = splitFrames(Readable.from([Buffer.from('OCI runtime exec failed')]));
  const read = await Promise.allSettled([stdout.toArray(), stderr.toArray()]);
  assert.ok(read.every((one) => one.status === 'rejected' && one.reason instanceof EngineDown));
});

test('a folder goes into an archive and comes out of it, with any owner', async () => {
  for (const uid of [0, 1000, 2_097_151, 2_097_152, 4_294_967_294]) {
    const archive = folderArchive({ name: 'ws', uid, gid: 7, mode: 0o700 });
    const entry = await readEntry(Readable.from([archive]));
    assert.deepEqual(entry, {
      ...{ name: 'ws/', kind: 'folder', size: 0, mode: 0o700, uid, gid: 7, link: '' },
    });
  }
  const broken = folderArchive({ name: 'ws', uid: 0, gid: 0, mode: 0o700 });
  broken[0] = 0x41;
  await assert.rejects(readEntry(Readable.from([broken])), EngineDown);
  await assert.rejects(readEntry(Readable.from([broken.subarray(0, 100)])), EngineDown);
  await assert.rejects(readEntry(Readable.from([])), EngineDown);
});

test('an entry of a log is its moment and its text, and a mark finds its place among equals', () => {
  const at = '2026-11-30T10:32:03.103677025Z';
  const entry = entryOf({ is_error: false, payload: Buffer.from(`${at} hello world\n`) });
  assert.deepEqual([entry.at, entry.payload.toString()], [at, 'hello world\n']);
  const odd = entryOf({ is_error: false, payload: Buffer.from('no moment\n') });
  assert.deepEqual([odd.at, odd.payload.toString()], ['', 'no moment\n']);
  const one = (moment: string) => ({ at: moment, payload: Buffer.alloc(0) });
  const log = ['b', 'a', 'b', 'c'].map(one);
  assert.equal(countSeen(log, { at: 'b', same: 2 }), 3);
  assert.equal(countSeen(log, { at: 'b', same: 3 }), null);
  assert.equal(countSeen(log, { at: 'd', same: 1 }), null);
  assert.equal(sinceOf({ at, same: 1 }), '1796034723.003677025');
  assert.equal(sinceOf({ at: '2026-11-30T10:32:03.05Z', same: 1 }), '1796034722.950000000');
  assert.equal(sinceOf({ at: '2026-11-30T10:32:03Z', same: 1 }), '1796034722.900000000');
});

const spec: RunSpec = {
  ...{ run: newRun(), spec_hash: 'h', argv: ['a', 'b'], env: { A: '1=2', B: '' }, image: 'x' },
  ...{ mounts: [{ source: '/m', target: '/models', writable: false }], network: 'none' },
  ...{ ports: ['api'], memory_bytes: 2 ** 30, cpu_millis: 2500 },
};

function bodyOf(changes: Partial<RunSpec>) {
  const labels = {
    ...{ install_id: 'i', run: spec.run, spec_hash: 'h', ports: ['api'] },
    ...{ tcp_ports: { web: 80 }, workspace: null },
  };
  const image = { id: 'sha256:1', reference: 'x', digest: null };
  const facts = { labels, image, sockets: '/s', volume: 'v', network: null, gpus: [] };
  return createBody({ ...spec, ...changes }, facts) as {
    [name: string]: unknown;
    HostConfig: { [name: string]: unknown; Mounts: { Type: string; Target: string }[] };
  };
}

test('a container is told its command, or keeps what its image begins with', () => {
  const given = bodyOf({});
  assert.deepEqual([given.Image, given.Entrypoint, given.Cmd], ['sha256:1', ['a'], ['b']]);
  const own = bodyOf({ argv: [] });
  assert.deepEqual(['Entrypoint' in own, 'Cmd' in own], [false, false]);
});

test('a container has no more of the machine than it was given', () => {
  const { HostConfig, Env } = bodyOf({
    workspace: { target: '/w', uid: 1, gid: 1, disk_bytes: null },
  });
  assert.deepEqual(Env, ['A=1=2', 'B=', 'NVIDIA_VISIBLE_DEVICES=void']);
  const { Memory, MemorySwap, NanoCpus, NetworkMode, CapDrop, IpcMode, ShmSize } = HostConfig;
  assert.deepEqual([Memory, MemorySwap, NanoCpus], [2 ** 30, 2 ** 30, 2.5e9]);
  assert.deepEqual([NetworkMode, CapDrop, IpcMode], ['none', ['ALL'], 'private']);
  assert.equal(ShmSize, 2 ** 29);
  assert.deepEqual(
    HostConfig.Mounts.map(({ Type, Target }) => `${Type} ${Target}`),
    ['bind /run/einsora', 'bind /models', 'volume /w'],
  );
  const ports = bodyOf({ tcp_ports: { web: 80 }, ports: [] }).HostConfig;
  assert.deepEqual(ports.PortBindings, { '80/tcp': [{ HostIp: '127.0.0.1', HostPort: '' }] });
  assert.deepEqual(
    ports.Mounts.map(({ Target }) => Target),
    ['/models'],
  );
});

test('labels are read back as they were written, and those of another install are not ours', () => {
  const labels = {
    ...{ install_id: 'i', run: spec.run, spec_hash: 'h', ports: ['api', 'web'] },
    ...{ tcp_ports: { web: 80 }, workspace: '/w' },
  };
  assert.deepEqual(readLabels(labelsFor(labels), 'i'), labels);
  assert.equal(readLabels(labelsFor(labels), 'other'), null);
  assert.equal(readLabels({ 'dev.einsora.install': 'i', 'dev.einsora.run': '../x' }, 'i'), null);
});

function container(changes: Partial<Container>): Container {
  return {
    ...{ id: 'c', labels: {}, status: 'exited', pid: 0, exit_code: 0, is_oom_killed: false },
    ...{ error: '', started_at: 5, image_id: 'i', stop_signal: 'SIGTERM', published: {} },
    ...changes,
  };
}

test('137 alone is no lack of memory, and a clean end is none either', () => {
  const end = (changes: Partial<Container>, oom_kills = 0) => {
    const seen = judge(container(changes), { is_alive: null, oom_kills });
    return seen.state === 'exited' ? seen.exit : null;
  };
  const killed = { code: 137, signal: 'SIGKILL', out_of_memory: false };
  assert.deepEqual(end({ exit_code: 137 }), killed);
  assert.deepEqual(end({ exit_code: 137 }, 1), { ...killed, out_of_memory: true });
  assert.equal(end({ exit_code: 137, is_oom_killed: true })?.out_of_memory, true);
  assert.equal(end({ exit_code: 0, is_oom_killed: true })?.out_of_memory, false);
});

test('what the engine and the processes tell differently is in doubt', () => {
  const state = (status: Container['status'], is_alive: boolean | null) =>
    judge(container({ status, pid: 7 }), { is_alive, oom_kills: 0 }).state;
  assert.equal(state('running', true), 'running');
  assert.equal(state('running', null), 'running');
  assert.equal(state('running', false), 'unknown');
  assert.equal(state('paused', true), 'running');
  assert.equal(state('exited', false), 'exited');
  assert.equal(state('exited', true), 'unknown');
  assert.equal(state('dead', null), 'exited');
  assert.equal(state('removing', null), 'exited');
  assert.equal(state('created', null), 'unbegun');
  assert.equal(state('restarting', true), 'unknown');
  assert.equal(state('hibernating' as Container['status'], true), 'unknown');
});

test('memory is told without the cache, under both versions of control groups', () => {
  const cpu_stats = { cpu_usage: { total_usage: 1_500_000 } };
  const one = { usage: 100, stats: { total_inactive_file: 30, inactive_file: 10 } };
  assert.deepEqual(readStats({ cpu_stats, memory_stats: one }), { cpu_ms: 2, memory_bytes: 70 });
  const two = { usage: 100, stats: { inactive_file: 10 } };
  assert.deepEqual(readStats({ memory_stats: two }), { cpu_ms: null, memory_bytes: 90 });
  assert.deepEqual(readStats({}), { cpu_ms: null, memory_bytes: null });
});

test('a listing is read whatever names it holds', () => {
  const text = '81a4 5 1700000000 ./a b\n41ed 4096 -5 ./two\nlines ./x\na1ff 3 0 ./-l\n';
  assert.deepEqual(
    readListing(text).map(({ name, size }) => `${JSON.stringify(name)} ${size}`),
    ['"a b" 5', '"two\\nlines ./x" 4096', '"-l" 3'],
  );
  assert.deepEqual(readListing(''), []);
});

test('a full disk and a program that is not there are told as such', () => {
  const error = (message: string) => asStartError(new EngineRefusal(500, message), 'x:1');
  assert.equal(error('write /var: no space left on device').code, 'container_disk_full');
  const missing = 'runc create failed: exec: "/nosuch": stat /nosuch: no such file or directory';
  assert.match(error(missing).message, /x:1 has no program \/nosuch/);
});

const version: EngineVersion = {
  ...{ api: '1.41', engine: '20.10.24', product: 'Engine', os: 'linux', kernel: '6' },
};

function findingsOf(info: EngineInfo, changes: Partial<EngineVersion> = {}) {
  const probe = judgeEngine('/s', { ...version, ...changes }, { MemoryLimit: true, ...info }, []);
  const said = probe.findings.map(({ check, status, message }) => `${check} ${status}: ${message}`);
  return { ...probe, said: said.join('\n') };
}

test('a probe says what of the engine is missing, and how that is put right', () => {
  assert.equal(findingsOf({}).ready, true);
  const uncapped = findingsOf({ MemoryLimit: false, SecurityOptions: ['name=rootless'] });
  assert.deepEqual([uncapped.ready, uncapped.reason], [false, 'cap_missing']);
  assert.match(uncapped.said, /memory cannot be capped/);
  assert.match(uncapped.said, /rootless/);
  assert.match(findingsOf({ PidsLimit: false }).said, /caps warning.*not processes/);
  assert.equal(findingsOf({ OSType: 'windows' }).reason, 'docker_unusable');
  assert.match(findingsOf({ DockerRootDir: '/var/snap/docker/x' }).said, /snap/);
  assert.match(findingsOf({}, { product: 'Podman Engine' }).said, /Podman/);
  assert.match(findingsOf({ DefaultRuntime: 'nvidia' }).said, /NVIDIA/);
  assert.match(findingsOf({ Driver: 'vfs' }).said, /disk warning/);
  assert.match(findingsOf({}).said, /gpu warning.*1\.44/);
  const off = findingsOf({ CDISpecDirs: [] }, { api: '1.44' });
  assert.match(off.said, /CDI is off/);
  const on = { CDISpecDirs: ['/etc/cdi'], DiscoveredDevices: [{ ID: 'nvidia.com/gpu=GPU-1' }] };
  assert.match(findingsOf(on, { api: '1.50' }).said, /gpu ok: CDI knows 1/);
});

test('each way of not being there has its reason', async () => {
  const probe = (kind: EngineDown['kind']) => {
    const gone = () => Promise.reject(new EngineDown(kind, 'why'));
    const engine: Engine = {
      ...{ socket_path: '/s', version: gone, json: gone, open: gone, hijack: gone },
    };
    return probeDocker(engine, []);
  };
  const kinds = ['absent', 'refused', 'denied', 'silent', 'garbled', 'api'] as const;
  const probes = await Promise.all(kinds.map(probe));
  assert.deepEqual(
    probes.map(({ reason }) => reason),
    [
      ...['docker_missing', 'docker_missing', 'docker_denied'],
      ...['docker_unusable', 'docker_unusable', 'docker_unusable'],
    ],
  );
  assert.ok(probes.every(({ ready, findings }) => !ready && findings.length === 1));
});

test('GPUs are read from what nvidia-smi prints, in each of its forms', () => {
  const whole = 'GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77';
  const part = 'MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f';
  const old_part = `MIG-${whole}/1/0`;
  const output = [
    `GPU 0: NVIDIA A100-SXM4-40GB (UUID: ${whole})\r`,
    `  MIG 1g.5gb      Device  0: (UUID: ${part})\r`,
    `  MIG 1g.5gb      Device  1: (UUID: ${old_part})\r`,
  ].join('\n');
  assert.deepEqual(gpusSeen(output, [whole]), [whole]);
  assert.deepEqual(gpusSeen(output, [part]), [part, old_part]);
  assert.deepEqual(gpusSeen('', [whole]), []);
  assert.deepEqual(gpusSeen('No devices were found\n', [whole]), []);
  assert.deepEqual(gpusSeen('Failed to initialize NVML: Unknown Error\n', [whole]), []);
});
