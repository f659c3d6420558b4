/**
 * `einsora doctor`: what this machine can run, what it cannot, why, and what helps. Works with and
 * without a control plane.
 *
 * Invariants: looks and changes nothing: the data folder is not made, no run is touched, nothing is
 * fetched. Exit code 0 where an endpoint can run on this machine. The agent and its drivers are
 * loaded only here, when asked for.
 */
import { accessSync, constants, existsSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { homedir, hostname, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { exec } from '../lib/exec.ts';
import { freeBytes } from '../lib/files.ts';
import { silentLog } from '../lib/log.ts';
import { networkFolder } from '../lib/network-folder.ts';
import { suggested } from './cli-error.ts';
import { type Config, packageEnv } from './config.ts';
import { findControlPlane } from './control-plane.ts';
import {
  collectFindings,
  type Diagnosis,
  type DoctorFacts,
  type EngineFact,
  type Finding,
  type FolderFact,
  type StoreFact,
} from './doctor-findings.ts';
import { exitCode } from './exit-codes.ts';
import { sendRequest } from './http.ts';
import { type Context, type Io, processIo } from './io.ts';
import { oneLine, printData, printJson, type Tint, tint } from './output.ts';

const health_timeout_ms = 2_000;
const default_port = 4600;

export async function doctor(
  options: { json?: boolean },
  config: Config,
  io: Io = processIo(),
): Promise<number> {
  const context = { config, io };
  const diagnosis = collectFindings(await lookAround(context));
  if (options.json) printJson(context, diagnosis);
  else printDiagnosis(context, diagnosis);
  return exitCode(diagnosis.ready ? 'ok' : 'failed');
}

export function printDiagnosis(context: Context, { ready, groups }: Diagnosis): void {
  for (const { name, findings } of groups) {
    printData(context, tint(context, context.io.stdout, 'bold', name));
    for (const finding of findings) printFinding(context, finding);
  }
  printData(
    context,
    ready
      ? '\nAn endpoint can run on this machine.'
      : '\nAn endpoint cannot run on this machine yet: see ✘ above.',
  );
}

const marks: Record<Finding['status'], { mark: string; color: Tint }> = {
  ok: { mark: '✔', color: 'green' },
  warning: { mark: '!', color: 'yellow' },
  missing: { mark: '✘', color: 'red' },
};

function printFinding(context: Context, { status, message, fix }: Finding): void {
  const { mark, color } = marks[status];
  printData(context, `  ${tint(context, context.io.stdout, color, mark)} ${oneLine(message)}`);
  if (fix !== null) printData(context, `      ${oneLine(fix)}`);
}

async function lookAround(context: Context): Promise<DoctorFacts> {
  const { config } = context;
  const scratch = mkdtempSync(join(tmpdir(), 'einsora-doctor-'));
  try {
    const [machine, store, control_plane, free] = await Promise.all([
      lookAtMachine(context, scratch),
      lookAtStore(config),
      lookAtControlPlane(context),
      isFree(default_port),
    ]);
    return {
      ...machine,
      store,
      folder: lookAtFolder(config.data_dir),
      control_plane,
      port: { number: default_port, free },
      up_command: suggested(config, 'up'),
    };
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/**
 * The drivers get a folder of their own to look from: the real one belongs to who runs workloads.
 */
async function lookAtMachine({ config, io }: Context, scratch: string) {
  const { clock, random } = io;
  const [{ takeInventory }, { createNativeDriver }, { createDockerDriver }, { engineSocket }] =
    await Promise.all([
      import('../agent/inventory/inventory.ts'),
      import('../drivers/native/native.ts'),
      import('../drivers/docker/docker.ts'),
      import('../drivers/docker/place.ts'),
    ]);
  const [{ createGpuWatch }, { createToolRunner }, { createEngine }] = await Promise.all([
    import('../agent/inventory/gpu-watch.ts'),
    import('../agent/inventory/tool-runner.ts'),
    import('../drivers/docker/engine.ts'),
  ]);
  const [{ createFence }, registry, { createBwrapFinder }, llama] = await Promise.all([
    import('../drivers/docker/fence.ts'),
    import('../drivers/registry.ts'),
    import('../drivers/bwrap.ts'),
    import('../runtimes/llama-cpp.ts'),
  ]);
  const tools = {
    tools_folder: join(config.cache_dir, 'tools'),
    platform: `${process.platform}-${process.arch}`,
    env: packageEnv(),
    clock,
    random,
  };
  const bwrap = createBwrapFinder(tools);
  const main_driver = process.platform === 'darwin' ? 'macos-native' : 'linux-native';
  const probes = registry.missingDrivers(process.platform);
  if (main_driver === 'linux-native') {
    const folder = join(scratch, 'runs');
    const workspaces = join(scratch, 'workspaces');
    const parts = { bwrap, clock, random, log: silentLog };
    const options = { folder, workspaces, install_id: 'doctor', ...parts };
    probes.push(await createNativeDriver(options).probe());
  }
  const socket_path = engineSocket({
    ...{ home: homedir(), uid: process.getuid?.() ?? 0, host: config.docker_host },
  });
  const docker = { folder: join(scratch, 'containers'), install_id: 'doctor', socket_path };
  const fence = createFence({ install_id: 'doctor', allow_lan: false, log: silentLog });
  const given = { fence, clock, random, log: silentLog };
  probes.push(await createDockerDriver({ ...docker, ...given }).probe());
  const [inventory, engine] = await Promise.all([
    takeInventory({
      ...{ probes, exec: createToolRunner(exec, clock), clock, host_name: hostname() },
      folder: nearestFolder(config.data_dir),
      offer: { cpu_millis: null, memory_bytes: null },
      gpus: createGpuWatch({ engine: createEngine(socket_path, clock), clock }),
      anew: true,
      docker_host: config.docker_host,
    }),
    llama.createLlamaCpp(tools).find(),
  ]);
  const fetches = engine.ok || engine.installable;
  const guard = await lookAtGuard(config.data_dir, clock.now());
  return {
    inventory: { ...inventory, findings: [...inventory.findings, ...guard] },
    main_driver,
    sandbox_download_bytes: fetches ? bwrap.download_bytes : null,
    engine: engineFact(engine),
  };
}

/** What the machine's owner says of it: its policy file, and its button. */
async function lookAtGuard(data_dir: string, now: number): Promise<Finding[]> {
  const [{ openPolicy, policyPaths }, { policyFinding }, { buttonFinding }] = await Promise.all([
    import('../agent/policy-source.ts'),
    import('../agent/local-guard.ts'),
    import('../agent/guard/button.ts'),
  ]);
  const policy = policyFinding(openPolicy(policyPaths(data_dir)).current());
  return [policy, buttonFinding(data_dir, now)].filter((one) => one !== null);
}

type EngineAnswer = Awaited<
  ReturnType<ReturnType<typeof import('../runtimes/llama-cpp.ts')['createLlamaCpp']>['find']>
>;

function engineFact(found: EngineAnswer): EngineFact {
  if (found.ok) return { kind: 'found', label: found.engine.label };
  const { installable, download_bytes, code, details } = found;
  return installable ? { kind: 'fetchable', download_bytes } : { kind: 'missing', code, details };
}

async function lookAtStore({ data_dir, database_url }: Config): Promise<StoreFact> {
  if (database_url === null) {
    const path = join(data_dir, 'einsora.db');
    const network = networkFolder(nearestFolder(data_dir));
    const version = process.versions.sqlite ?? 'unknown';
    return { kind: 'file', path, exists: existsSync(path), version, network };
  }
  const { lookAtDatabase } = await import('../store/postgres.ts');
  return { kind: 'postgres', ...(await lookAtDatabase(database_url)) };
}

async function lookAtControlPlane({ config, io }: Context): Promise<DoctorFacts['control_plane']> {
  const found = findControlPlane(config);
  if (found === null) return null;
  const controller = new AbortController();
  const cancel = io.clock.after(health_timeout_ms, () => controller.abort());
  try {
    const url = new URL('/healthz', found.url).href;
    const { signal } = controller;
    const answer = await sendRequest({ method: 'GET', url, headers: {}, signal });
    return { ...found, healthy: answer.status === 200 };
  } catch {
    return { ...found, healthy: false };
  } finally {
    cancel();
  }
}

export function lookAtFolder(path: string): FolderFact {
  const nearest = nearestFolder(path);
  let unwritable: string | null = null;
  try {
    accessSync(nearest, constants.W_OK | constants.X_OK);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    unwritable = code === 'EROFS' ? 'its disk is read-only' : `${nearest} belongs to another user`;
  }
  const stats = statSync(nearest);
  if (!stats.isDirectory()) unwritable = `${nearest} is no folder`;
  const exists = nearest === path;
  const open_to_others = exists && (stats.mode & 0o077) !== 0;
  return { path, exists, unwritable, open_to_others, free_bytes: freeBytes(nearest) };
}

/** The folder itself, or the one in which it (or its parents) would be made. */
function nearestFolder(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : nearestFolder(dirname(path));
}

export function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
