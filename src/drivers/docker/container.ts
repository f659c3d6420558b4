/**
 * Containers of one engine: the calls, and what is read out of their answers.
 *
 * Invariants: a run's container is known by our labels, never by its name alone; an answer that
 * lacks what we need is an error, not a guess.
 */
import { parseRunName, type RunKey, runName } from '../../core/run.ts';
import type { Engine } from './engine.ts';
import { EngineDown, isStatus } from './engine-error.ts';

export const label_prefix = 'dev.einsora.';

/** What a container's labels say of its run. */
export type RunLabels = {
  install_id: string;
  run: RunKey;
  spec_hash: string;
  ports: string[];
  tcp_ports: Record<string, number>;
  /** Where the workspace stands; null for none. */
  workspace: string | null;
};

export type ContainerStatus =
  | 'created'
  | 'running'
  | 'paused'
  | 'restarting'
  | 'removing'
  | 'exited'
  | 'dead';

export type Container = {
  id: string;
  labels: Record<string, string>;
  status: ContainerStatus;
  /** Of its first process, on the engine's machine; 0 where there is none. */
  pid: number;
  exit_code: number;
  is_oom_killed: boolean;
  error: string;
  /** Wall-clock milliseconds; null where it never began. */
  started_at: number | null;
  image_id: string;
  stop_signal: string;
  /** Its share of CPU, of 1024 that others have; 0 or left out: as others. */
  cpu_shares?: number;
  /** Published ports: the container's to the machine's. */
  published: Record<string, number>;
};

export type ListedContainer = { id: string; labels: Record<string, string>; state: string };

export function containerName(run: RunKey): string {
  return `ein-${runName(run)}`;
}

export function labelsFor(labels: RunLabels): Record<string, string> {
  const { install_id, run, spec_hash, ports, tcp_ports, workspace } = labels;
  const named = {
    install: install_id,
    workload: run.workload_id,
    run: runName(run),
    spec_hash,
    ports: JSON.stringify(ports),
    tcp_ports: JSON.stringify(tcp_ports),
    ...(workspace === null ? {} : { workspace }),
  };
  return Object.fromEntries(
    Object.entries(named).map(([name, value]) => [`${label_prefix}${name}`, value]),
  );
}

/** The run that a container of this install is; null where it is none of ours. */
export function readLabels(labels: Record<string, string>, install_id: string): RunLabels | null {
  const of = (name: string) => labels[`${label_prefix}${name}`];
  const run = parseRunName(of('run') ?? '');
  if (run === null || of('install') !== install_id) return null;
  return {
    install_id,
    run,
    spec_hash: of('spec_hash') ?? '',
    ports: listOf(of('ports')),
    tcp_ports: numbersOf(of('tcp_ports')),
    workspace: of('workspace') ?? null,
  };
}

export async function listContainers(
  engine: Engine,
  install_id: string,
): Promise<ListedContainer[]> {
  const filters = JSON.stringify({ label: [`${label_prefix}install=${install_id}`] });
  const found = await engine.json({
    method: 'GET',
    path: '/containers/json',
    query: { all: 1, filters },
  });
  if (!Array.isArray(found)) throw new EngineDown('garbled', 'the engine gave no list');
  return found.map((entry: Record<string, unknown>) => ({
    id: String(entry.Id),
    labels: stringsOf(entry.Labels),
    state: String(entry.State),
  }));
}

/** A container by id or name; null where there is none. */
export async function inspectContainer(engine: Engine, id: string): Promise<Container | null> {
  try {
    return readContainer(await engine.json({ method: 'GET', path: `/containers/${id}/json` }));
  } catch (error) {
    if (isStatus(error, 404)) return null;
    throw error;
  }
}

type Inspected = {
  Id?: string;
  Image?: string;
  State?: {
    Status?: string;
    Pid?: number;
    ExitCode?: number;
    OOMKilled?: boolean;
    Error?: string;
    StartedAt?: string;
  };
  HostConfig?: { CpuShares?: number };
  Config?: { Labels?: unknown; StopSignal?: string };
  NetworkSettings?: { Ports?: Record<string, { HostIp?: string; HostPort?: string }[] | null> };
};

function readContainer(answer: unknown): Container {
  const { Id, Image, State, Config, HostConfig, NetworkSettings } = (answer ?? {}) as Inspected;
  if (typeof Id !== 'string' || typeof State?.Status !== 'string') {
    throw new EngineDown('garbled', 'the engine described no container');
  }
  const started = Date.parse(State.StartedAt ?? '');
  return {
    id: Id,
    labels: stringsOf(Config?.Labels),
    status: State.Status as ContainerStatus,
    pid: State.Pid ?? 0,
    exit_code: State.ExitCode ?? 0,
    is_oom_killed: State.OOMKilled === true,
    error: State.Error ?? '',
    // The engine writes the year 1 for what never was.
    started_at: started > 0 ? started : null,
    image_id: Image ?? '',
    cpu_shares: HostConfig?.CpuShares ?? 0,
    stop_signal: Config?.StopSignal || 'SIGTERM',
    published: publishedPorts(NetworkSettings?.Ports),
  };
}

function publishedPorts(
  ports: Record<string, { HostIp?: string; HostPort?: string }[] | null> | undefined,
): Record<string, number> {
  return Object.fromEntries(
    Object.entries(ports ?? {}).flatMap(([name, bindings]) => {
      const local = bindings?.find(({ HostIp }) => HostIp === '127.0.0.1');
      const port = Number(local?.HostPort);
      return port > 0 ? [[name.replace('/tcp', ''), port]] : [];
    }),
  );
}

/** Removes a container and the volumes without a name that only it had; gone is no error. */
export async function removeContainer(engine: Engine, id: string): Promise<void> {
  try {
    const query = { force: 1, v: 1 };
    const timeout_ms = 60_000;
    await engine.json({ method: 'DELETE', path: `/containers/${id}`, query, timeout_ms });
  } catch (error) {
    // 409: its removal is under way.
    if (!isStatus(error, 404, 409)) throw error;
  }
}

export function stringsOf(found: unknown): Record<string, string> {
  if (typeof found !== 'object' || found === null) return {};
  return Object.fromEntries(Object.entries(found).map(([name, value]) => [name, String(value)]));
}

function listOf(text: string | undefined): string[] {
  const found = parse(text);
  return Array.isArray(found) ? found.map(String) : [];
}

function numbersOf(text: string | undefined): Record<string, number> {
  return Object.fromEntries(
    Object.entries(stringsOf(parse(text))).map(([name, value]) => [name, Number(value)]),
  );
}

function parse(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? 'null');
  } catch {
    return null;
  }
}
