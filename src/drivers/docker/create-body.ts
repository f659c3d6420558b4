/**
 * What the engine is told of a new container: a pure function of what is to run.
 *
 * Invariants: hardened whatever the image says: no capability but those that a root user of an
 * ordinary system needs, no new privileges, capped memory, CPU, processes and output, no restart by
 * the engine, no port but on 127.0.0.1, no device that was not given. Variables go by this body,
 * never by an argument.
 */
import { runName } from '../../core/run.ts';
import { port_folder, type RunSpec } from '../driver.ts';
import { labelsFor, type RunLabels } from './container.ts';

/** `chown`, `apt-get install`, `su` and a server on port 80 work with these; raw packets do not. */
export const kept_capabilities = [
  'CHOWN',
  'DAC_OVERRIDE',
  'FOWNER',
  'FSETID',
  'KILL',
  'NET_BIND_SERVICE',
  'SETGID',
  'SETUID',
  'SYS_CHROOT',
];
export const pids_limit = 4096;
const shared_memory_limit_bytes = 8 * 2 ** 30;
/** Each container's output on the engine's disk: this many files of this size. */
const log_options = { 'max-size': '10m', 'max-file': '3' };

export type CreateFacts = {
  labels: RunLabels;
  image: { id: string; reference: string; digest: string | null };
  /** The run's folder of sockets on this machine. */
  sockets: string;
  /** The workload's volume; null for none. */
  volume: string | null;
  /** Its network; null for none. */
  network: string | null;
  /** Its GPUs, by their names in CDI. */
  gpus: readonly string[];
};

export function createBody(spec: RunSpec, facts: CreateFacts): Record<string, unknown> {
  const { image, network, gpus } = facts;
  const [program, ...args] = spec.argv;
  const tcp_ports = Object.values(spec.tcp_ports ?? {}).map((port) => `${port}/tcp`);
  const has_gpus = gpus.length > 0;
  const env = {
    ...spec.env,
    // An engine whose default runtime is NVIDIA's gives every GPU to an image that asks for all.
    ...(has_gpus ? {} : { NVIDIA_VISIBLE_DEVICES: 'void' }),
  };
  return {
    Image: image.id,
    // The image's own command is kept only where none was asked for.
    ...(program === undefined ? {} : { Entrypoint: [program], Cmd: args }),
    Env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
    Labels: {
      ...labelsFor(facts.labels),
      'dev.einsora.image': image.reference,
      ...(image.digest === null ? {} : { 'dev.einsora.digest': image.digest }),
    },
    Hostname: hostName(spec),
    ...(spec.workspace ? { WorkingDir: spec.workspace.target } : {}),
    // A check of the image's own would run beside the program; the agent looks for itself.
    Healthcheck: { Test: ['NONE'] },
    ExposedPorts: Object.fromEntries(tcp_ports.map((port) => [port, {}])),
    HostConfig: {
      ...limitsOf(spec),
      ...hardening,
      NetworkMode: network ?? 'none',
      PortBindings: Object.fromEntries(
        tcp_ports.map((port) => [port, [{ HostIp: '127.0.0.1', HostPort: '' }]]),
      ),
      Mounts: mountsOf(spec, facts),
      ...(has_gpus ? { DeviceRequests: [gpuRequest(gpus)] } : {}),
    },
  };
}

const hardening = {
  CapDrop: ['ALL'],
  CapAdd: kept_capabilities,
  SecurityOpt: ['no-new-privileges:true'],
  Privileged: false,
  Init: true,
  IpcMode: 'private',
  RestartPolicy: { Name: 'no' },
  AutoRemove: false,
  LogConfig: { Type: 'json-file', Config: log_options },
  // Where the machine runs out of memory, a guest goes before what is the owner's.
  OomScoreAdj: 500,
  Ulimits: [{ Name: 'core', Soft: 0, Hard: 0 }],
};

function limitsOf({ memory_bytes, cpu_millis }: RunSpec) {
  return {
    Memory: memory_bytes,
    MemorySwap: memory_bytes,
    NanoCpus: Math.round(cpu_millis * 1e6),
    PidsLimit: pids_limit,
    // Counted against the memory above. Engines share batches between processes through it.
    ShmSize: Math.min(shared_memory_limit_bytes, Math.round(memory_bytes / 2)),
  };
}

function mountsOf(spec: RunSpec, { sockets, volume }: CreateFacts) {
  const bind = (source: string, target: string, writable: boolean) => ({
    Type: 'bind',
    Source: source,
    Target: target,
    ReadOnly: !writable,
    BindOptions: { Propagation: 'rprivate' },
  });
  const workspace =
    spec.workspace && volume !== null
      ? [
          {
            Type: 'volume',
            Source: volume,
            Target: spec.workspace.target,
            // Empty at first, whatever the image has there.
            VolumeOptions: { NoCopy: true },
          },
        ]
      : [];
  return [
    ...(spec.ports.length > 0 ? [bind(sockets, port_folder, true)] : []),
    ...spec.mounts.map(({ source, target, writable }) => bind(source, target, writable)),
    ...workspace,
  ];
}

/** By UUID, never by index. The engine wants neither a count nor options beside it. */
function gpuRequest(names: readonly string[]) {
  return { Driver: 'cdi', DeviceIDs: [...names] };
}

/** A name that says which workload it is, within the 63 characters of a host name. */
function hostName({ run }: RunSpec): string {
  return runName(run).replaceAll('.', '-');
}
