/**
 * The part of the agent that runs one kind of workload on one operating system.
 *
 * Contract, held by test/contracts/driver.ts for every driver:
 * - `start` is idempotent by run; it resolves when the run is durably recorded and its process was
 *   started (not when it is ready), and rejects with a DriverError otherwise, leaving nothing
 *   running.
 * - `observe` lists every run of this install, found by label after any restart of the agent. A run
 *   it cannot judge is `unknown`, never absent.
 * - `stop` resolves only when nothing of the run executes any more; `park` keeps its folder and
 *   logs, `remove` leaves nothing. Stopping what is gone is no error.
 * - `dial` opens a byte stream to a named port of a running run, or rejects.
 * - What a workload keeps (its workspace) belongs to the workload, not to a run: `park` and
 *   `remove` leave it, the next run of the workload finds it, and only `erase` ends it.
 * - `exec` and `files` work inside the run's own isolation (same user, caps, network and files);
 *   what they began ends with the run.
 * - Nothing foreign (another install's) is ever listed or touched.
 */
import type { Duplex } from 'node:stream';
import type { Details, ReasonCode } from '../core/reasons.ts';
import type { RunExit, RunKey } from '../core/run.ts';
import type { DriverName } from '../core/trust.ts';
import type { ExecAsk, ExecSession, RunFiles } from '../lib/session.ts';

/** One thing looked at by a probe: what it is, whether it is fine, and what to do where not. */
export type Finding = {
  check: string;
  status: 'ok' | 'warning' | 'missing';
  message: string;
  fix: string | null;
};

export type DriverProbe = {
  driver: DriverName;
  ready: boolean;
  /** Why it is not ready, from the table of reasons; null where it is. */
  reason: ReasonCode | null;
  findings: Finding[];
};

/** A file or folder of the machine that the sandbox shows to the run. */
export type Mount = { source: string; target: string; writable: boolean };

export type RunSpec = {
  run: RunKey;
  /** Changes whenever anything below does: the driver's label to tell a changed spec. */
  spec_hash: string;
  /**
   * The program as seen inside the sandbox; empty with an image: what that begins with. Secrets
   * never stand here.
   */
  argv: string[];
  /** The whole environment: nothing is inherited. */
  env: Record<string, string>;
  mounts: Mount[];
  /**
   * `fenced`: the internet, but neither the machine's own addresses nor its local networks. Native
   * runs cannot be fenced: they have none or the host's.
   */
  network: 'none' | 'host' | 'fenced';
  /** Names of the ports the program opens as Unix sockets under `port_folder`, as `<name>.sock`. */
  ports: string[];
  /** Ports that it opens as TCP inside the run, by name, for programs without Unix sockets. */
  tcp_ports?: Record<string, number>;
  /** The image to run in, as the catalog or the user names it; null for the host's programs. */
  image?: string | null;
  /** Where the workload's workspace stands inside the run; null for none. */
  workspace?: Workspace | null;
  /** UUIDs of its GPUs. */
  gpu_uuids?: string[];
  memory_bytes: number;
  /** CPU in thousandths of a core. */
  cpu_millis: number;
};

/** A folder that outlives runs, made empty for the first one and owned by this user of the run. */
export type Workspace = { target: string; uid: number; gid: number; disk_bytes: number | null };

/** Inside the sandbox: the folder that holds the run's sockets. */
export const port_folder = '/run/einsora';

export type Observation = {
  run: RunKey;
  spec_hash: string;
  state: 'running' | 'exited' | 'unknown';
  /** Where it ended. */
  exit: RunExit | null;
  /** Wall-clock milliseconds. */
  started_at: number | null;
  /** It stands still (`pause`); left out where it does not. */
  paused?: boolean;
  /** It gets little CPU (`lower`); left out where it does not, or nobody can tell. */
  lowered?: boolean;
};

/** Null where it cannot be measured, which is not zero. `cpu_ms` counts up from the run's start. */
export type RunStats = {
  cpu_ms: number | null;
  memory_bytes: number | null;
  disk_bytes: number | null;
  /** Programs of the run that were ended for lack of memory, counted up from its start. */
  oom_kills?: number | null;
  gpus: { uuid: string; busy_percent: number | null; memory_bytes: number | null }[] | null;
};

export const no_stats: RunStats = {
  cpu_ms: null,
  memory_bytes: null,
  disk_bytes: null,
  gpus: null,
};

export type Driver = {
  readonly name: DriverName;
  /** Of sim alone: whose row of the trust matrix it takes (ADR-0057). */
  readonly as?: DriverName | null;
  probe(): Promise<DriverProbe>;
  /**
   * Brings an image where it is not here yet, and resolves with what was found, for people (a
   * digest). A total that nobody knows is null. Rejects with `image_not_found`,
   * `image_pull_failed`, `disk_full`; drivers without images leave it out.
   */
  bringImage?(
    image: string,
    onProgress: (done_bytes: number, total_bytes: number | null) => void,
    signal: AbortSignal,
    /** For a registry that does not give it to everybody. */
    sign_in?: { registry: string; user: string; password: string } | null,
  ): Promise<string>;
  start(spec: RunSpec, signal: AbortSignal): Promise<void>;
  observe(): Promise<Observation[]>;
  stop(run: RunKey, mode: 'park' | 'remove', grace_ms: number): Promise<void>;
  /**
   * Makes all of a run stand still in memory; resolves once nothing of it executes. It is running
   * and paused then, also to another driver; it may be stopped, and nobody reaches it. Pausing what
   * is paused or gone is no error. Drivers that cannot leave it out, and `resume` with it.
   */
  pause?(run: RunKey): Promise<void>;
  resume?(run: RunKey): Promise<void>;
  /** Little CPU where others want it too, or as much as before. Left out by those that cannot. */
  lower?(run: RunKey, is_low: boolean): Promise<void>;
  /**
   * The output of a run from byte `offset` (negative: that many from the end), at most `limit`
   * bytes.
   */
  logs(run: RunKey, offset: number, limit: number): Promise<LogChunk>;
  dial(run: RunKey, port_name: string): Promise<Duplex>;
  /**
   * A stream to a TCP port that a program of the run has open inside, or rejects: never to a port
   * of the machine or of another run.
   */
  connect(run: RunKey, tcp_port: number): Promise<Duplex>;
  stats(run: RunKey): Promise<RunStats>;
  exec(run: RunKey, ask: ExecAsk, signal: AbortSignal): Promise<ExecSession>;
  files(run: RunKey): Promise<RunFiles>;
  /** Ends what the workload keeps here. Nothing kept is no error; a run of it that is here is one. */
  erase(workload_id: string): Promise<void>;
  /**
   * Host and port at which fenced runs find the machine's way to the gateway; null where there is
   * none. Left out by drivers that fence nothing.
   */
  gatewayHost?(): Promise<string | null>;
};

/** `next_offset` is where to go on; `end` says that the run has ended and all was read. */
export type LogChunk = { text: string; next_offset: number; end: boolean };

/** A start, dial or stop that could not be done, with its reason from the table. */
export class DriverError extends Error {
  readonly code: ReasonCode;
  /** What fills the code's sentence in, where it is known apart from the message. */
  readonly details: Details;
  constructor(code: ReasonCode, message: string, cause?: unknown, details: Details = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.details = details;
  }
}
