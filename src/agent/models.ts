/**
 * The models of this machine, as its agent keeps them: what runs need is fetched for them, what the
 * control plane wishes (fetch, check, remove) is done once, and all of it is reported.
 *
 * Invariants: a hub's token is in memory only and comes anew with the next desired state after a
 * restart, so a fetch that needs to ask waits for that; a wish that a restart cut short is begun
 * again, since it is wished until it is reported as done; what the validator refuses is not kept.
 */
import { rm } from 'node:fs/promises';
import type {
  DesiredModelFile,
  DesiredModels,
  ModelCheck,
  ObservedModelFile,
  ObservedModels,
} from '../contract/model-files.ts';
import { findModel } from '../core/catalog.ts';
import { type RunKey, runName } from '../core/run.ts';
import type { Clock } from '../lib/clock.ts';
import { describeError, type Log } from '../lib/log.ts';
import { Secret } from '../lib/secret.ts';
import { builtinModels, findBuiltin } from '../models/builtin.ts';
import type { Asker, ResolvedModel } from '../models/source.ts';
import { type Manifest, type ModelStore, modelFileId } from '../models/store.ts';
import type { ModelVerdict } from '../models/validate.ts';

export type AgentModels = {
  /** A complete desired state has come. */
  learn(desired: DesiredModels): void;
  observed(): ObservedModels;
  /** Called whenever there is something new to report. */
  onChange(changed: () => void): void;
  /** The model of a run, fetched where it is not here. */
  resolveForRun(
    run: RunKey,
    model: string,
    onProgress: (done_bytes: number, total_bytes: number) => void,
    signal: AbortSignal,
  ): Promise<ResolvedModel>;
  stop(): Promise<void>;
};

export type AgentModelsDeps = {
  machine_id: string;
  store: ModelStore;
  resolve(
    source: string,
    asker: (signal: AbortSignal) => Promise<Asker>,
    onProgress: (done_bytes: number, total_bytes: number) => void,
    signal: AbortSignal,
  ): Promise<ResolvedModel>;
  validate(path: string): Promise<ModelVerdict>;
  /** The folder of a catalog model that is here, or null. */
  builtinFolder(name: string): string | null;
  freeBytes(): number | null;
  clock: Clock;
  log: Log;
};

type Entry = ObservedModelFile & {
  /** Being done: number of the wish, and how to call it off. */
  work: { number: number; off: AbortController; done: Promise<void> } | null;
};

type Context = AgentModelsDeps & {
  entries: Map<string, Entry>;
  askers: Map<string, Asker>;
  /** Those that wait for the next desired state. */
  waiting: Set<() => void>;
  changed: () => void;
  stopping: AbortSignal;
};

const progress_every_ms = 250;

export function createAgentModels(deps: AgentModelsDeps): AgentModels {
  const stopping = new AbortController();
  const context: Context = {
    ...deps,
    ...{ entries: new Map(), askers: new Map(), waiting: new Set() },
    changed: () => {},
    stopping: stopping.signal,
  };
  for (const manifest of deps.store.list()) noteManifest(context, manifest);
  for (const { name } of builtinModels) noteBuiltin(context, name);
  return {
    learn: (desired) => learn(context, desired),
    observed: () => ({
      files: [...context.entries.values()].map(({ work: _, ...file }) => file),
      free_bytes: deps.freeBytes(),
    }),
    onChange(changed) {
      context.changed = changed;
    },
    async resolveForRun(run, model, onProgress, signal) {
      const asker = (off: AbortSignal) => askerOf(context, run, off);
      const found = await fetchInto(context, model, asker, onProgress, signal);
      const entry = found.ok ? context.entries.get(found.manifest?.id ?? '') : undefined;
      if (entry === undefined) return found;
      return { ...found, onChecked: (verdict) => noteCheck(context, entry, verdict) };
    },
    async stop() {
      stopping.abort();
      await Promise.all([...context.entries.values()].map(({ work }) => work?.done));
    },
  };
}

function entryOf(context: Context, id: string, source: string, tenant_id: string | null): Entry {
  const found = context.entries.get(id);
  if (found !== undefined) return found;
  const made: Entry = {
    ...{ id, tenant_id, source, state: 'fetching' },
    ...{ format: null, revision: null, sha256: null, bytes: null },
    ...{ done_bytes: null, total_bytes: null, code: null, details: {}, checked: null },
    ...{ done_wish: 0, work: null },
  };
  context.entries.set(id, made);
  return made;
}

function noteManifest(context: Context, manifest: Manifest): void {
  const { id, source, tenant_id, format, revision, files, main } = manifest;
  const entry = entryOf(context, id, source, tenant_id);
  const sha256 = files.find((file) => file.name === main)?.sha256 ?? null;
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  Object.assign(entry, { format, revision, sha256, bytes }, ready);
}

const ready = {
  state: 'ready',
  code: null,
  details: {},
  done_bytes: null,
  total_bytes: null,
} as const;

function noteBuiltin(context: Context, name: string): void {
  if (context.builtinFolder(name) === null) return;
  const builtin = findBuiltin(name);
  const entry = entryOf(context, modelFileId(context.machine_id, '', name), name, null);
  const revision = builtin === null ? null : builtin.pin.version;
  const bytes = findModel(name)?.file_bytes ?? null;
  Object.assign(entry, { format: 'gguf', revision, bytes }, ready);
}

/** Who a run fetches for: said by the control plane, once it is heard. */
async function askerOf(context: Context, run: RunKey, signal: AbortSignal): Promise<Asker> {
  for (;;) {
    const asker = context.askers.get(runName(run));
    if (asker !== undefined) return asker;
    await new Promise<void>((resolve, reject) => {
      const again = () => {
        context.waiting.delete(again);
        signal.removeEventListener('abort', again);
        if (signal.aborted) reject(signal.reason);
        else resolve();
      };
      context.waiting.add(again);
      signal.addEventListener('abort', again, { once: true });
      if (signal.aborted) again();
    });
  }
}

function learn(context: Context, desired: DesiredModels): void {
  context.askers = new Map(
    desired.askers.map(({ run, tenant_id, hub_token }) => [
      run,
      { tenant_id, token: hub_token === null ? null : new Secret(hub_token) },
    ]),
  );
  for (const again of [...context.waiting]) again();
  const wished = new Map(desired.files.map((file) => [file.id, file]));
  for (const entry of context.entries.values()) {
    if (entry.state === 'removed' && !wished.has(entry.id)) context.entries.delete(entry.id);
  }
  for (const wish of wished.values()) {
    const entry = entryOf(context, wish.id, wish.source, wish.tenant_id);
    const begun = Math.max(entry.done_wish, entry.work?.number ?? 0);
    if (begun < wish.number && !context.stopping.aborted) begin(context, entry, wish);
  }
}

/** A newer wish takes the place of an older one. */
function begin(context: Context, entry: Entry, wish: DesiredModelFile): void {
  const before = entry.work;
  before?.off.abort();
  const off = new AbortController();
  const signal = AbortSignal.any([off.signal, context.stopping]);
  const { number } = wish;
  const carryOut = async () => {
    await before?.done;
    try {
      await doWish(context, entry, wish, signal);
    } catch (error) {
      if (signal.aborted) return;
      context.log.error({ model: wish.id, error: describeError(error) }, 'a wish failed');
      const details = { why: describeError(error) };
      Object.assign(entry, { state: 'failed', code: 'agent_failed', details });
    }
    if (signal.aborted) return;
    entry.done_wish = number;
    entry.work = null;
    context.changed();
  };
  entry.work = { number, off, done: Promise.resolve() };
  entry.work.done = carryOut();
}

async function doWish(
  context: Context,
  entry: Entry,
  wish: DesiredModelFile,
  signal: AbortSignal,
): Promise<void> {
  const { id, source, tenant_id, hub_token } = wish;
  if (wish.wish === 'remove') {
    await context.store.remove(id);
    const folder = context.builtinFolder(source);
    if (folder !== null) await rm(folder, { recursive: true, force: true });
    Object.assign(entry, ready, { state: 'removed', checked: null });
    return;
  }
  const token = hub_token === null ? null : new Secret(hub_token);
  const found = await fetchInto(
    context,
    source,
    async () => ({ tenant_id, token }),
    () => {},
    signal,
  );
  if (!found.ok || signal.aborted) return;
  await noteCheck(context, entry, await context.validate(found.path));
}

/** What the validator said of a model; what was fetched and refused is not kept. */
async function noteCheck(context: Context, entry: Entry, verdict: ModelVerdict): Promise<void> {
  const check = asCheck(verdict, context.clock.now());
  const { ok, code, message } = check;
  entry.checked = check;
  context.changed();
  if (ok) return;
  await context.store.remove(entry.id);
  Object.assign(entry, { state: 'failed', code, details: { why: message, path: entry.source } });
  context.changed();
}

function asCheck(verdict: ModelVerdict, at: number): ModelCheck {
  if (!verdict.ok) {
    const { code, rule, message } = verdict;
    return { ok: false, code, rule, message, at };
  }
  const { format, architecture, tensor_count } = verdict.model;
  const message = [format, architecture, `${tensor_count} tensors`].filter(Boolean).join(', ');
  return { ok: true, code: null, rule: null, message, at };
}

/** Brings a model and keeps its entry up to date on the way. */
async function fetchInto(
  context: Context,
  source: string,
  asker: (signal: AbortSignal) => Promise<Asker>,
  onProgress: (done_bytes: number, total_bytes: number) => void,
  signal: AbortSignal,
): Promise<ResolvedModel> {
  const { clock } = context;
  let entry: Entry | null = null;
  let to_be_told = false;
  const enter = (tenant_id: string | null) => {
    const id = modelFileId(context.machine_id, tenant_id ?? '', source);
    entry ??= entryOf(context, id, source, tenant_id);
  };
  const known = async (off: AbortSignal): Promise<Asker> => {
    const who = await asker(off);
    enter(who.tenant_id);
    return who;
  };
  if (findBuiltin(source) !== null) enter(null);
  const found = await context.resolve(
    source,
    known,
    (done_bytes, total_bytes) => {
      onProgress(done_bytes, total_bytes);
      if (entry === null) return;
      Object.assign(entry, { state: 'fetching', done_bytes, total_bytes });
      if (to_be_told) return;
      to_be_told = true;
      // The last step before a standstill is told too.
      clock.after(progress_every_ms, () => {
        to_be_told = false;
        context.changed();
      });
    },
    signal,
  );
  if (entry !== null) settle(context, entry, found, signal);
  return found;
}

function settle(context: Context, entry: Entry, found: ResolvedModel, signal: AbortSignal): void {
  if (found.ok) {
    if (found.manifest !== undefined) noteManifest(context, found.manifest);
    else noteBuiltin(context, entry.source);
  } else if (!signal.aborted) {
    Object.assign(entry, { state: 'failed', code: found.code, details: found.details });
    Object.assign(entry, { done_bytes: null, total_bytes: null });
  } else if (entry.work === null && entry.state === 'fetching') {
    context.entries.delete(entry.id); // nobody wants it any more, and nothing failed
  }
  context.changed();
}
