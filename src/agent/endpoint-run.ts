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
import { runtimeFor } from '../core/images.ts';
import type { RunKey } from '../core/run.ts';
import type { BwrapBringer } from '../drivers/bwrap.ts';
import type { Driver } from '../drivers/driver.ts';
import type { Clock } from '../lib/clock.ts';
import { allShards } from '../models/shards.ts';
import type { ResolvedModel } from '../models/source.ts';
import { type Model, validateModel } from '../models/validate.ts';
import { imageEngine } from '../runtimes/llama-cpp/image.ts';
import type { Engine, EngineCommand, Runtime } from '../runtimes/runtime.ts';
import { vllmCommand, vllmEngine } from '../runtimes/vllm.ts';
import type { Doubts } from './doubts.ts';
import { firstAnswer, watchEngine, watchedOf } from './engine-watch.ts';
import { acceleratorOf, bringImage, startRun } from './image-run.ts';
import { type Patience, untilAnswered } from './run-watch.ts';
import { type Failure, failure, type Order, type Outcome, type RunWork } from './run-work.ts';
import type { Stages } from './stages.ts';

export type EndpointDeps = {
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
  /** What the gateway says of its runs. */
  doubts: Doubts;
};

type Deps = EndpointDeps & { driver: Driver };

export function createEndpointWork(deps: EndpointDeps): RunWork<EndpointSpec> {
  return {
    start: (driver, order, stages, signal) =>
      startEndpoint({ ...deps, driver }, order, stages, signal),
    awaitReady: (driver, order, stages, signal) =>
      awaitAnswer({ ...deps, driver }, order, stages, signal),
    watch: (driver, order, signal, tell) => watchEngine({ ...deps, driver }, order, signal, tell),
  };
}

type BroughtEngine = { ok: true; engine: Engine; image: string | null } | Failure;

/** The engine of the machine in its sandbox, or that of an image in a container. */
async function bringEngine(
  deps: Deps,
  { spec }: Order<EndpointSpec>,
  stages: Stages,
  signal: AbortSignal,
): Promise<BroughtEngine> {
  const { driver } = deps;
  const found =
    spec.runtime ?? runtimeFor('endpoint', spec.image_id, driver.name, acceleratorOf(spec));
  if (found === null) return failure('start_failed', { why: `${driver.name} cannot run it` });
  if (found.reference !== null) {
    const image = await bringImage(driver, found.reference, stages, signal);
    if (!image.ok) return image;
    const engine = found.engine === 'vllm' ? vllmEngine(found) : imageEngine(found);
    return { ok: true, engine, image: found.reference };
  }
  const onProgress = (done: number, total: number) => stages.progress(done, total);
  stages.begin('sandbox');
  const bwrap = await deps.bwrap.install(onProgress, signal);
  if (!bwrap.ok) return failure(bwrap.code, bwrap.details);
  stages.done(`bubblewrap ${bwrap.version}`);

  stages.begin('engine');
  const engine = await deps.runtime.install(onProgress, signal);
  if (!engine.ok) return failure(engine.code, engine.details);
  stages.done(engine.engine.label);
  return { ok: true, engine: engine.engine, image: null };
}

/**
 * Brings what is missing, checks the model, and starts the engine. Not yet ready when it resolves.
 */
async function startEndpoint(
  deps: Deps,
  order: Order<EndpointSpec>,
  stages: Stages,
  signal: AbortSignal,
): Promise<Outcome> {
  const { run, spec } = order;
  const brought = await bringEngine(deps, order, stages, signal);
  if (!brought.ok) return brought;

  stages.begin('model');
  const onProgress = (done: number, total: number) => stages.progress(done, total);
  const model = await deps.resolveModel(spec.model, onProgress, signal, run);
  if (!model.ok) return failure(model.code, model.details);
  stages.done(whereFrom(model));

  stages.begin('validate');
  const checked = await validateModel(model.path);
  await model.onChecked?.(checked);
  if (!checked.ok) return failure(checked.code, { why: checked.message, path: model.path });
  const command = commandOf(deps, brought.engine, spec, model.path, checked.model);
  if (command === null) {
    const { format } = checked.model;
    return failure('no_engine_for_format', { model: spec.model, format, page: 'its publisher' });
  }
  stages.done(describeModel(checked.model));

  stages.begin('start');
  const { memory_bytes, cpu_millis, gpu_uuids = [] } = spec;
  const { argv, env, mounts, ports } = command;
  const gpus = gpu_uuids.length === 0 ? {} : { gpu_uuids };
  const caps = { memory_bytes, cpu_millis, network: 'none' as const, ...gpus };
  const { image } = brought;
  const started = await startRun(
    deps.driver,
    { run, argv, env, mounts, ports, ...caps, ...(image === null ? {} : { image }) },
    signal,
  );
  if (started.ok) stages.done(command.notes.join(', '));
  return started;
}

/** What to run; null where this engine reads no model of this format. */
function commandOf(
  { runtime }: Deps,
  engine: Engine,
  spec: EndpointSpec,
  path: string,
  model: Model,
): EngineCommand | null {
  if (engine.dialect === 'vllm') {
    const is_folder = model.format === 'safetensors' && statSync(path).isDirectory();
    const order = { spec, model_path: path, model_bytes: model.file_bytes };
    const { context_length: trained_context } = model;
    return is_folder ? vllmCommand(engine, { ...order, trained_context }) : null;
  }
  if (model.format !== 'gguf') return null;
  const parts = model.shard === null ? [path] : allShards(path);
  return runtime.command(engine, {
    spec,
    model_path: parts[0] ?? path,
    model_parts: parts.slice(1),
    model_bytes: parts.reduce((sum, part) => sum + statSync(part).size, 0),
    trained_context: model.context_length,
    pooling: model.pooling,
  });
}

/** Waits until a started engine has answered one real token. */
async function awaitAnswer(
  deps: Deps,
  { run, spec }: Order<EndpointSpec>,
  stages: Stages,
  signal: AbortSignal,
): Promise<Outcome> {
  stages.begin('load');
  const loaded = await untilAnswered(watchedOf(deps, run), (status) => status === 200, signal);
  if (!loaded.ok) return loaded;
  stages.begin('answer');
  const reply = await firstAnswer(deps, run, spec.name, signal);
  const waited = formatDuration(deps.patience.answer_ms);
  if (!reply.ok) return failure('engine_never_ready', { waited, why: reply.why });
  if (reply.status !== 200) {
    return failure('engine_refused', { status: reply.status, why: reply.body.slice(0, 300) });
  }
  stages.done();
  return { ok: true };
}

/** The file, and which revision of its repository it is of. */
function whereFrom({ path, manifest }: ResolvedModel & { ok: true }): string {
  const revision = manifest?.revision ?? null;
  return revision === null ? path : `${path}, revision ${revision.slice(0, 12)}`;
}

function describeModel(model: Model): string {
  const size = formatMemory(model.file_bytes);
  return `${model.architecture || model.format}, ${model.tensor_count} tensors, ${size}`;
}
