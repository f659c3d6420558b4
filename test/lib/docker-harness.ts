/**
 * A docker driver on the machine's real engine, with small programs to run in it.
 *
 * Invariants: each harness has its own folder and install id, so that tests beside each other never
 * see each other's runs; `close` removes every container, volume and network that it made.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { removeContainer } from '../../src/drivers/docker/container.ts';
import { createDockerDriver, type DockerOptions } from '../../src/drivers/docker/docker.ts';
import { createEngine, type Engine } from '../../src/drivers/docker/engine.ts';
import type { Fence } from '../../src/drivers/docker/network.ts';
import type { Driver, RunSpec } from '../../src/drivers/driver.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { exec } from '../../src/lib/exec.ts';
import { silentLog } from '../../src/lib/log.ts';
import { systemRandom } from '../../src/lib/random.ts';
import { type DriverHarness, newRun } from '../contracts/driver.ts';
import { smallImage } from './docker-images.ts';
import { docker_socket } from './parts.ts';

export type DockerHarness = DriverHarness & {
  folder: string;
  install_id: string;
  engine: Engine;
  image: string;
  openWith(changes: Partial<DockerOptions>): Driver;
  /** A spec that runs `script` with the image's shell. */
  shell(script: string, changes?: Partial<RunSpec>): RunSpec;
  /** What the docker command says; a failure is an error. */
  docker(...args: string[]): Promise<string>;
  [Symbol.asyncDispose](): Promise<void>;
};

export async function dockerHarness(
  options: { socket_path?: string; install_id?: string } = {},
): Promise<DockerHarness> {
  const { socket_path = docker_socket } = options;
  const root = mkdtempSync(join(tmpdir(), 'einsora-docker-'));
  const folder = join(root, 'containers');
  const random_id = Buffer.from(systemRandom.bytes(8)).toString('hex');
  const install_id = options.install_id ?? `test-${random_id}`;
  const engine = createEngine(socket_path, systemClock);
  const image = await smallImage(engine);
  const openWith = (changes: Partial<DockerOptions>) =>
    createDockerDriver({
      ...{ folder, install_id, socket_path, clock: systemClock },
      ...{ random: systemRandom, log: silentLog },
      // The rules are another file's; here it is about what stands around them.
      fence: no_fence,
      ...changes,
    });
  const driver = openWith({});
  const close = async () => {
    await removeAll(engine, install_id);
    rmSync(root, { recursive: true, force: true });
  };
  const shell: DockerHarness['shell'] = (script, changes = {}) => ({
    ...specOf(image, ['/bin/sh', '-c', script]),
    ...changes,
  });
  return {
    driver,
    clock: systemClock,
    folder,
    install_id,
    engine,
    image,
    openWith,
    shell,
    reopen: () => openWith({}),
    serving: (run) => ({ ...specOf(image, [node_inside, '-e', server]), run, mounts: [node] }),
    ending: (run) => shell("printf 'one ü two\\n'; exit 3", { run }),
    docker: (...args) => dockerCommand(socket_path, args),
    keeping: (run) => ({ ...shell(keeping), run, workspace }),
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** Nothing is kept out: for tests of what stands around it. */
export const no_fence: Fence = {
  guard: async () => null,
  prove: async () => {},
  release: async () => {},
  look: async () => ({ check: 'docker fence', status: 'ok', message: 'none', fix: null }),
};

export async function dockerCommand(socket_path: string, args: string[]): Promise<string> {
  const env = { PATH: process.env.PATH ?? '', HOME: tmpdir() };
  const all = ['-H', `unix://${socket_path}`, ...args];
  const done = await exec('docker', all, { env, timeout_ms: 120_000 });
  if (done.code !== 0) throw new Error(`docker ${args.join(' ')}: ${done.stderr}${done.stdout}`);
  return done.stdout.trim();
}

async function removeAll(engine: Engine, install_id: string): Promise<void> {
  const filters = JSON.stringify({ label: [`dev.einsora.install=${install_id}`] });
  const list = async (path: string, query: Record<string, string | number>) =>
    (await engine.json({ method: 'GET', path, query })) as Record<string, unknown>;
  const containers = await list('/containers/json', { all: 1, filters });
  for (const { Id } of containers as unknown as { Id: string }[]) await removeContainer(engine, Id);
  const { Volumes } = await list('/volumes', { filters });
  for (const { Name } of (Volumes ?? []) as { Name: string }[]) {
    await engine.json({ method: 'DELETE', path: `/volumes/${Name}` });
  }
  const networks = await list('/networks', { filters });
  for (const { Id } of networks as unknown as { Id: string }[]) {
    await engine.json({ method: 'DELETE', path: `/networks/${Id}` });
  }
}

const node_inside = '/opt/node';
const node = { source: process.execPath, target: node_inside, writable: false };
const server = `
  process.on('SIGTERM', () => process.exit(0));
  console.log('serving');
  require('node:http').createServer((request, response) => response.end('ok'))
    .listen('/run/einsora/http.sock');
`;

const workspace = { target: '/workspace', uid: 1000, gid: 1000, disk_bytes: null };
const keeping = `
  [ -f /workspace/left ] && echo 'found it' || echo 'found nothing'
  echo here > /workspace/left
  while :; do sleep 0.1; done
`;

function specOf(image: string, argv: string[]): RunSpec {
  const run = newRun();
  return {
    run,
    spec_hash: `hash-${run.workload_id}`,
    argv,
    image,
    env: {},
    mounts: [],
    network: 'none',
    ports: ['http'],
    memory_bytes: 256 * 2 ** 20,
    cpu_millis: 1000,
  };
}
