/**
 * One endpoint's run, from nothing to an engine that answers, and then watched until it ends.
 *
 * Invariants: each stage fails with a code of the table of reasons; nothing starts before the disk,
 * the file and the sandbox were looked at; ready means that a real token came, not that a port is
 * open; deadlines are by progress, so a slow disk is no failure and a hang is one.
 */
import { statSync } from 'node:fs';
import type { EndpointSpec } from '../contract/sync.ts';
import { formatDuration, formatMemory } from '../core/format.ts';
import type { Details, ReasonCode } from '../core/reasons.ts';
import type { RunKey } from '../core/run.ts';
import type { BwrapBringer } from '../drivers/bwrap.ts';
import { type Driver, DriverError, type RunSpec } from '../drivers/driver.ts';
import type { Clock } from '../lib/clock.ts';
import { digest } from '../lib/secret.ts';
import type { GgufModel } from '../models/gguf.ts';
import { allShards } from '../models/shards.ts';
import type { ResolvedModel } from '../models/source.ts';
import { validateModel } from '../models/validate.ts';
import type { Runtime } from '../runtimes/runtime.ts';
import { callEngine } from './engine-client.ts';
import type { Stages } from './stages.ts';

export type Patience = {
  /** No sign of progress while loading. */
  load_silence_ms: number;
  /** For the first token. */
  answer_ms: number;
  /** Between two looks at a running engine. */
  look_every_ms: number;
  /** Between two health checks. */
  health_every_ms: number;
  /** For one health check; three failures in a row mean that it hangs. */
  health_ms: number;
};

export const patience: Patience = {
  load_silence_ms: 120_000,
  answer_ms: 120_000,
  look_every_ms: 500,
  health_every_ms: 10_000,
  health_ms: 10_000,
};

export type EndpointDeps = {
  driver: Driver;
  bwrap: Pick<BwrapBringer, 'find' | 'install'>;
  runtime: Runtime;
  resolveModel(
    model: string,
    onProgress: (done_bytes: number, total_bytes: number) => void,
    signal: AbortSignal,
    run: RunKey,
  ): Promise<ResolvedModel>;
  clock: Clock;
  patience: Patience;
};

export type Outcome = { ok: true } | { ok: false; code: ReasonCode; details: Details };

/** What the life of a run needs of its kind: to be brought up, to be ready, to be watched. */
export type EndpointWork = {
  start(
    driver: Driver,
    run: RunKey,
    spec: EndpointSpec,
    stages: Stages,
    signal: AbortSignal,
  ): Promise<Outcome>;
  awaitAnswer(
    driver: Driver,
    run: RunKey,
    name: string,
    stages: Stages,
    signal: AbortSignal,
  ): Promise<Outcome>;
  watch(driver: Driver, run: RunKey, signal: AbortSignal): Promise<Outcome>;
};

export function createEndpointWork(deps: Omit<EndpointDeps, 'driver'>): EndpointWork {
  return {
    start: (driver, ...rest) => startEndpoint({ ...deps, driver }, ...rest),
    awaitAnswer: (driver, ...rest) => awaitAnswer({ ...deps, driver }, ...rest),
    watch: (driver, ...rest) => watchEndpoint({ ...deps, driver }, ...rest),
  };
}

const failure = (code: ReasonCode, details: Details = {}): Outcome => ({
  ok: false,
  code,
  details,
});

/**
 * Brings what is missing, checks the model, and starts the engine. Not yet ready when it resolves.
 */
export async function startEndpoint(
  deps: EndpointDeps,
  run: RunKey,
  spec: EndpointSpec,
  stages: Stages,
  signal: AbortSignal,
): Promise<Outcome> {
  const onProgress = (done: number, total: number) => stages.progress(done, total);
  stages.begin('sandbox');
  const bwrap = await deps.bwrap.install(onProgress, signal);
  if (!bwrap.ok) return failure(bwrap.code, bwrap.details);
  stages.done(`bubblewrap ${bwrap.version}`);

  stages.begin('engine');
  const engine = await deps.runtime.install(onProgress, signal);
  if (!engine.ok) return failure(engine.code, engine.details);
  stages.done(engine.engine.label);

  stages.begin('model');
  const model = await deps.resolveModel(spec.model, onProgress, signal, run);
  if (!model.ok) return failure(model.code, model.details);
  stages.done(whereFrom(model));

  stages.begin('validate');
  const checked = await validateModel(model.path);
  await model.onChecked?.(checked);
  if (!checked.ok) return failure(checked.code, { why: checked.message, path: model.path });
  if (checked.model.format !== 'gguf') {
    const { format } = checked.model;
    return failure('no_engine_for_format', { model: spec.model, format, page: 'its publisher' });
  }
  stages.done(describeModel(checked.model));

  stages.begin('start');
  const parts = checked.model.shard === null ? [model.path] : allShards(model.path);
  const command = deps.runtime.command(engine.engine, {
    spec,
    model_path: parts[0] ?? model.path,
    model_parts: parts.slice(1),
    model_bytes: parts.reduce((sum, part) => sum + statSync(part).size, 0),
    trained_context: checked.model.context_length,
  });
  const { memory_bytes, cpu_millis } = spec;
  const { argv, env, mounts, ports } = command;
  const caps = { memory_bytes, cpu_millis, network: 'none' as const };
  const wanted: Omit<RunSpec, 'spec_hash'> = { run, argv, env, mounts, ports, ...caps };
  try {
    await deps.driver.start({ ...wanted, spec_hash: digest(JSON.stringify(wanted)) }, signal);
  } catch (error) {
    if (error instanceof DriverError) return failure(error.code, { why: error.message });
    throw error;
  }
  stages.done(command.notes.join(', '));
  return { ok: true };
}

/** Waits until a started engine has answered one real token. */
export async function awaitAnswer(
  deps: EndpointDeps,
  run: RunKey,
  name: string,
  stages: Stages,
  signal: AbortSignal,
): Promise<Outcome> {
  stages.begin('load');
  const loaded = await awaitHealth(deps, run, signal);
  if (!loaded.ok) return loaded;
  stages.begin('answer');
  const { answer_path, answer_body } = deps.runtime.readiness;
  const reply = await callEngine(
    deps.clock,
    () => deps.driver.dial(run, 'api'),
    {
      method: 'POST',
      path: answer_path,
      body: answer_body(name),
      timeout_ms: deps.patience.answer_ms,
    },
    signal,
  );
  const waited = formatDuration(deps.patience.answer_ms);
  if (!reply.ok) return failure('engine_never_ready', { waited, why: reply.why });
  if (reply.status !== 200) {
    return failure('engine_refused', { status: reply.status, why: reply.body.slice(0, 300) });
  }
  stages.done();
  return { ok: true };
}

async function awaitHealth(deps: EndpointDeps, run: RunKey, signal: AbortSignal): Promise<Outcome> {
  const { clock, driver } = deps;
  let progress = '';
  let progressed_at = clock.monotonic();
  while (!signal.aborted) {
    const reply = await health(deps, run, signal);
    if (reply.ok && reply.status === 200) return { ok: true };
    if (await hasEnded(driver, run)) return failure('engine_exited');
    // Memory that grows and lines that are written are progress; burning CPU is none.
    const [stats, log] = await Promise.all([driver.stats(run), driver.logs(run, -1, 1)]);
    const now = `${log.next_offset}/${Math.floor((stats.memory_bytes ?? 0) / 2 ** 20)}`;
    if (now !== progress) {
      progress = now;
      progressed_at = clock.monotonic();
    }
    const silent_ms = clock.monotonic() - progressed_at;
    if (silent_ms >= deps.patience.load_silence_ms) {
      return failure('engine_never_ready', { waited: formatDuration(silent_ms) });
    }
    await clock.sleep(Math.min(100, deps.patience.look_every_ms), signal);
  }
  return failure('engine_exited');
}

/** Watches a ready engine; resolves with why it has to be ended, or has ended. */
export async function watchEndpoint(
  deps: EndpointDeps,
  run: RunKey,
  signal: AbortSignal,
): Promise<Outcome> {
  const { clock, patience } = deps;
  let healthy_at = clock.monotonic();
  let asked_at = clock.monotonic();
  let failures = 0;
  while (!signal.aborted) {
    await clock.sleep(patience.look_every_ms, signal);
    if (signal.aborted) break;
    if (await hasEnded(deps.driver, run)) return failure('engine_exited');
    if (clock.monotonic() - asked_at < patience.health_every_ms) continue;
    asked_at = clock.monotonic();
    const reply = await health(deps, run, signal);
    if (reply.ok) {
      failures = 0;
      healthy_at = clock.monotonic();
    } else if (++failures >= 3) {
      const waited = formatDuration(clock.monotonic() - healthy_at);
      return failure('engine_hangs', { waited });
    }
  }
  return { ok: true };
}

function health(deps: EndpointDeps, run: RunKey, signal: AbortSignal) {
  return callEngine(
    deps.clock,
    () => deps.driver.dial(run, 'api'),
    {
      method: 'GET',
      path: deps.runtime.readiness.health_path,
      timeout_ms: deps.patience.health_ms,
    },
    signal,
  );
}

async function hasEnded(driver: Driver, run: RunKey): Promise<boolean> {
  const all = await driver.observe();
  const found = all.find(
    (entry) =>
      entry.run.workload_id === run.workload_id &&
      entry.run.replica === run.replica &&
      entry.run.run_epoch === run.run_epoch,
  );
  return found === undefined || found.state === 'exited';
}

/** The file, and which revision of its repository it is of. */
function whereFrom({ path, manifest }: ResolvedModel & { ok: true }): string {
  const revision = manifest?.revision ?? null;
  return revision === null ? path : `${path}, revision ${revision.slice(0, 12)}`;
}

function describeModel(model: GgufModel): string {
  const size = formatMemory(model.file_bytes);
  return `${model.architecture}, ${model.tensor_count} tensors, ${size}`;
}
