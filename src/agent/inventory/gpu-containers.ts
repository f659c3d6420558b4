/**
 * What stands between a GPU and a container: Docker's engine, NVIDIA's toolkit, and the CDI
 * specifications by which the one tells the other of devices.
 *
 * Invariants: looks and changes nothing; an engine that does not answer is null and not "no engine
 * for GPUs"; specifications are read as text, so that a broken one is only one that names nothing.
 */

import type { Engine, EngineVersion } from '../../drivers/docker/engine.ts';
import type { EngineInfo } from '../../drivers/docker/probe.ts';
import type { MachineReader } from './machine-reader.ts';

export type CdiSpec = {
  path: string;
  /** Names of devices, without what stands before "=": "0", "0:1", "all", "GPU-…". */
  names: string[];
  /** Versions of the driver whose libraries it hands over. */
  versions: string[];
};

export type Containers = {
  /** Null where nothing answers as an engine. */
  engine: { api: string; root: string; cdi: boolean; devices: string[] | null } | null;
  /** Of NVIDIA's toolkit; null where it is not installed, empty where it tells no version. */
  toolkit: string | null;
  specs: CdiSpec[];
};

const timeout_ms = 5_000;
const spec_folders = ['/etc/cdi', '/var/run/cdi'];
const most = { specs: 16, names: 512, text: 1_000_000 };

export async function lookAtContainers(
  reader: MachineReader,
  engine: Pick<Engine, 'version' | 'json'> | null,
): Promise<Containers> {
  const [ctk, asked] = await Promise.all([
    reader.run('nvidia-ctk', ['--version'], timeout_ms),
    askEngine(engine),
  ]);
  return {
    engine: asked,
    toolkit:
      ctk.outcome === 'exited' ? (/version v?(\d[\w.-]*)/.exec(ctk.stdout)?.[1] ?? '') : null,
    specs: readSpecs(reader),
  };
}

async function askEngine(engine: Pick<Engine, 'version' | 'json'> | null) {
  if (engine === null) return null;
  try {
    const { api }: EngineVersion = await engine.version();
    const info = ((await engine.json({ method: 'GET', path: '/info', timeout_ms })) ??
      {}) as EngineInfo;
    const { CDISpecDirs, DiscoveredDevices, DockerRootDir } = info;
    const devices = Array.isArray(DiscoveredDevices)
      ? DiscoveredDevices.map((one) => String(one?.ID ?? '')).slice(0, most.names)
      : null;
    // Before API 1.50 the engine does not tell whether CDI is on.
    const cdi = CDISpecDirs === undefined || CDISpecDirs === null || CDISpecDirs.length > 0;
    return { api, root: String(DockerRootDir ?? ''), cdi, devices };
  } catch {
    return null; // whether it is away or silent: its driver's own probe says which
  }
}

/** Ids of running containers that carry our label, whichever install's they are. */
export async function ourContainers(engine: Pick<Engine, 'json'> | null): Promise<string[]> {
  if (engine === null) return [];
  try {
    const filters = JSON.stringify({ label: ['dev.einsora.install'] });
    const call = {
      method: 'GET',
      path: '/containers/json',
      query: { filters },
      timeout_ms,
    } as const;
    const list = await engine.json(call);
    return Array.isArray(list) ? list.map((one) => String(one?.Id ?? '')).slice(0, 1000) : [];
  } catch {
    return []; // whose programs are whose cannot be told then: they count as the owner's
  }
}

export function readSpecs(reader: Pick<MachineReader, 'read' | 'list'>): CdiSpec[] {
  const paths = spec_folders.flatMap((folder) =>
    reader.list(folder).map((name) => `${folder}/${name}`),
  );
  return paths
    .filter((path) => /\.(ya?ml|json)$/.test(path))
    .slice(0, most.specs)
    .flatMap((path) => {
      const text = reader.read(path)?.slice(0, most.text);
      return text?.includes('nvidia.com/gpu') ? [{ path, ...readSpec(text) }] : [];
    });
}

/** Both forms of a specification, YAML and JSON, say these two alike. */
export function readSpec(text: string): Omit<CdiSpec, 'path'> {
  const unique = (pattern: RegExp) => [
    ...new Set([...text.matchAll(pattern)].map((match) => match[1] ?? '').slice(0, most.names)),
  ];
  return {
    names: unique(/["']?\bname["']?\s*:\s*["']?([\w:./-]{1,96})/g),
    versions: unique(/\.so\.(\d{3,4}\.\d{1,4}(?:\.\d{1,4})?)\b/g),
  };
}
