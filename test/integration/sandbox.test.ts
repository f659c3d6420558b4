/**
 * What an endpoint can reach: the sandbox that the engine really gets, its mounts, environment and
 * caps, with a probe in the engine's place.
 */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import type { RunSpec } from '../../src/drivers/driver.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { systemRandom } from '../../src/lib/random.ts';
import { createLlamaCpp } from '../../src/runtimes/llama-cpp.ts';
import type { Engine } from '../../src/runtimes/runtime.ts';
import { newRun, untilEnded } from '../contracts/driver.ts';
import { writeKnownAnswerModel } from '../lib/known-answer.ts';
import { type NativeHarness, nativeHarness } from '../lib/native-harness.ts';
import { needs } from '../lib/parts.ts';
import { repository, test_cache } from '../lib/program.ts';
import { hostEnv } from '../lib/wheel-bench.ts';

const never = new AbortController().signal;

type Found = { reached: string[]; seen: string[]; wrote: string[]; model_bytes: number };

test(
  "from inside an endpoint's sandbox: no internet, no loopback of the host, no data, no home",
  needs('llama', 'bwrap', 'cgroup', 'python'),
  async () => {
    await using harness = nativeHarness();
    const data_dir = resolve(harness.folder, '..');
    writeFileSync(join(data_dir, 'owner-token'), 'tsk_secret');
    const models = join(data_dir, 'models');
    mkdirSync(models);
    const model = join(models, 'known.gguf');
    writeKnownAnswerModel(model);
    const other = join(models, 'other.gguf');
    writeKnownAnswerModel(other);

    const { spec, python } = await endpointSpec(model);
    const listener = await listen();
    try {
      const { port } = listener.address() as AddressInfo;
      const hidden = [
        ...[data_dir, join(data_dir, 'owner-token'), harness.folder, models, other, model],
        ...[test_cache, repository, '/etc/shadow', '/var/lib', '/run/docker.sock', '/sys'],
        ...homeEntries(spec),
      ];
      const ask = {
        addresses: [
          ...[`127.0.0.1 ${port}`, `::1 ${port}`, `localhost ${port}`, '1.1.1.1 443', '8.8.8.8 53'],
        ],
        hidden,
        writes: [
          '/x',
          '/usr/x',
          '/etc/x',
          '/model/x',
          '/opt/einsora/x',
          ...spec.mounts.map((mount) => mount.target),
        ],
      };
      const closed = await probe(harness, spec, python, ask);
      assert.deepEqual(closed.reached, []);
      assert.deepEqual(closed.seen, []);
      assert.deepEqual(closed.wrote, []);
      assert.equal(closed.model_bytes, statSync(model).size, 'its own model is there, whole');

      // The same probe with what an endpoint never gets finds it: the answers are no accident.
      const mounts = [...spec.mounts, { source: other, target: other, writable: true }];
      const open = await probe(harness, { ...spec, mounts, network: 'host' }, python, {
        ...ask,
        writes: [other],
      });
      assert.ok(open.reached.includes(`127.0.0.1 ${port}`), JSON.stringify(open));
      assert.ok(open.seen.includes(other));
      assert.deepEqual(open.wrote, [other]);
    } finally {
      listener.close();
    }
  },
);

/** The spec of a real endpoint, made as the agent makes it. */
async function endpointSpec(model_path: string): Promise<{ spec: RunSpec; python: string }> {
  const runtime = createLlamaCpp({
    tools_folder: join(test_cache, 'tools'),
    platform: `${process.platform}-${process.arch}`,
    env: hostEnv,
    clock: systemClock,
    random: systemRandom,
  });
  const found = await runtime.install(() => {}, never);
  assert.ok(found.ok, JSON.stringify(found));
  const sizes = { cpu_millis: 1000, memory_bytes: 2 * 2 ** 30 };
  const asked = { model: model_path, context_length: null, parallel: null, ...sizes };
  const command = runtime.command(found.engine, {
    spec: { kind: 'endpoint', name: 'probe', ...asked },
    model_path,
    model_bytes: statSync(model_path).size,
    trained_context: null,
  });
  const { argv, env, mounts, ports } = command;
  const spec: RunSpec = {
    ...{ run: newRun(), spec_hash: 'probe', argv, env, mounts, ports, ...sizes },
    network: 'none',
  };
  return { spec, python: pythonOf(found.engine) };
}

/** The engine's own Python, or the system's for an engine that is no Python program. */
function pythonOf(engine: Engine): string {
  return engine.dialect === 'xllamacpp' ? (engine.program[0] ?? '') : '/usr/bin/python3';
}

/** All that a home holds, but for what the engine's own files stand in. */
function homeEntries(spec: RunSpec): string[] {
  const home = homedir();
  const targets = spec.mounts.map(({ target }) => `${target}/`);
  const entries = readdirSync(home).map((name) => join(home, name));
  const is_way = (path: string) => targets.some((target) => target.startsWith(`${path}/`));
  return [...entries.filter((path) => !is_way(path)), join(home, '.ssh/id_ed25519')];
}

async function probe(
  harness: NativeHarness,
  spec: RunSpec,
  python: string,
  ask: { addresses: string[]; hidden: string[]; writes: string[] },
): Promise<Found> {
  const run = newRun();
  const argv = [python, '-I', '-S', '-B', '-c', script, JSON.stringify(ask)];
  await harness.driver.start({ ...spec, run, argv }, never);
  await untilEnded(harness, run);
  const { text } = await harness.driver.logs(run, 0, 100_000);
  assert.match(text, /^\{.*\}\n$/, text);
  return JSON.parse(text) as Found;
}

async function listen(): Promise<Server> {
  const listener = createServer((socket) => socket.destroy());
  await new Promise<void>((done) => listener.listen(0, done));
  return listener;
}

const script = `
import json, os, socket, sys
ask = json.loads(sys.argv[1])
reached, wrote = [], []
for address in ask["addresses"]:
    host, port = address.split()
    try:
        socket.create_connection((host, int(port)), timeout=3).close()
        reached.append(address)
    except OSError:
        pass
for path in ask["writes"]:
    try:
        open(path, "ab").close()
        wrote.append(path)
    except OSError:
        pass
print(json.dumps({
    "reached": reached,
    "seen": [path for path in ask["hidden"] if os.path.lexists(path)],
    "wrote": wrote,
    "model_bytes": len(open("/model/model.gguf", "rb").read()),
}))
`;
