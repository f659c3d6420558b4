/**
 * An engine that serves models: how it is found, brought, and called. One implementation per
 * engine.
 *
 * Contract:
 * - `find` only looks: it fetches and changes nothing, and says what `install` could do about it.
 * - `install` is idempotent, works offline once done, ends at the signal, and fails as a value.
 * - `command` is pure apart from reading where the engine's files are: the same engine and order
 *   give the same command. Nothing secret stands in it. The program opens its API as `api.sock` in
 *   the driver's `port_folder`, exits with another code than 0 and a clear last line where it
 *   cannot load the model, and ends at SIGTERM at once.
 */
import type { EndpointSpec } from '../contract/sync.ts';
import type { Details, ReasonCode } from '../core/reasons.ts';

/** The same shape as the drivers' Mount: a file or folder shown inside the sandbox. */
export type EngineMount = { source: string; target: string; writable: boolean };

export type EngineFailure = { ok: false; code: ReasonCode; details: Details };

/** An engine of this machine, as far as a command needs it. */
export type Engine = {
  /** For people: which engine, which version. */
  label: string;
  dialect: 'llama-server' | 'xllamacpp' | 'vllm';
  /** The start of the argv, as seen inside the sandbox. */
  program: string[];
  /** Its own files; the system's (/usr and what belongs to it) are there in every sandbox. */
  mounts: EngineMount[];
  /** Of the settings that not every version has, those that this one has. */
  flags: string[];
  /** It computes on a GPU; on the CPU where left out. */
  on_gpu?: boolean;
};

export type EngineFound = { ok: true; engine: Engine };

export type EngineFinding =
  | EngineFound
  /** `installable`: `install` would try, with this much to fetch. */
  | (EngineFailure & { installable: boolean; download_bytes: number | null });

export type EngineOrder = {
  spec: Omit<EndpointSpec, 'image_id' | 'accelerator'>;
  /** The model file on this machine, as validated. */
  model_path: string;
  /** The further files of a split model, beside it. */
  model_parts?: string[];
  /** Of all its files. */
  model_bytes: number;
  /** What the model was trained for, where its file says so. */
  trained_context: number | null;
  /** Of a model for embeddings (or scores, `rank`); null or left out: it writes. */
  pooling?: 'mean' | 'cls' | 'last' | 'rank' | null;
};

export type EngineCommand = {
  argv: string[];
  env: Record<string, string>;
  mounts: EngineMount[];
  ports: ['api'];
  /** Settings worth showing, in words. */
  notes: string[];
};

/**
 * How to tell that it answers: health first, then one real answer (health alone can lie). An
 * engine that says that its model is not for this is asked for the next.
 */
export type Readiness = {
  health_path: string;
  /** Where it counts its work, in Prometheus' form (engine-progress.ts). */
  metrics_path: string;
  answers: readonly { path: string; body(model: string): Record<string, unknown> }[];
};

export type Runtime = {
  readonly name: string;
  readonly readiness: Readiness;
  find(): Promise<EngineFinding>;
  install(
    onProgress: (done_bytes: number, total_bytes: number) => void,
    signal: AbortSignal,
  ): Promise<EngineFound | EngineFailure>;
  command(engine: Engine, order: EngineOrder): EngineCommand;
};
