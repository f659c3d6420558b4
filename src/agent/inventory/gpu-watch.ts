/**
 * The GPUs of a machine over time: a short look each minute, a long one now and then or on demand,
 * and a memory of what was seen, so that nothing flaps and nothing is forgotten.
 *
 * Invariants: what speaks against a GPU with proof (lost, failing, in use by its owner) counts at
 * once; everything else counts once two looks in a row agree, or where a person asked for the look;
 * a look that failed leaves what was known for one more look, and then says `unknown`; a GPU that
 * was seen here is never dropped without a word. One look at a time.
 */
import type { GpuRecord, GpuState } from '../../contract/gpus.ts';
import { isWorse } from '../../core/gpus.ts';
import { type Clock, systemClock } from '../../lib/clock.ts';
import type { Distribution } from './distribution.ts';
import { type GpuFacts, type LongLook, lookAtGpus } from './gpu.ts';
import { gpuFindings } from './gpu-findings.ts';
import { judgeGpus } from './gpu-judge.ts';
import type { GpuSnapshot, KnownGpu } from './gpu-snapshot.ts';
import { createKernelLog } from './kernel-log.ts';
import type { MachineReader } from './machine-reader.ts';

export type GpuReport = { gpus: GpuRecord[]; findings: ReturnType<typeof gpuFindings> };

export type GpuWatch = {
  /** `anew`: a person asks: all is looked at, and what is seen counts. */
  look(reader: MachineReader, here: Distribution, ask: GpuAsk): Promise<GpuReport>;
};
export type GpuAsk = { anew: boolean; memory_bytes: number };

/** Where what was seen is kept over a restart of the agent. */
export type GpuMemory = { read(): KnownGpu[]; write(known: KnownGpu[]): void };

type Settled = { record: GpuRecord; other: string | null };
export type Settling = Map<string, Settled>;

const long_every_ms = 10 * 60_000;
const most_known = 64;

/** Speaks against a GPU with proof. */
const at_once: readonly GpuState[] = [
  'missing',
  'needs_reboot',
  'unhealthy',
  'degraded',
  'busy_owner',
];

export function createGpuWatch(deps: GpuFacts & { memory?: GpuMemory; clock?: Clock }): GpuWatch {
  const clock = deps.clock ?? systemClock;
  const readKernelLog = createKernelLog();
  let known = deps.memory?.read() ?? [];
  let written = JSON.stringify(known);
  let long: { at: number; shape: string; value: LongLook } | null = null;
  let settled: Settling = new Map();
  let looking: Promise<unknown> = Promise.resolve();

  async function look(reader: MachineReader, here: Distribution, ask: GpuAsk) {
    if (ask.anew) known = known.filter((one) => !isGone(settled, one));
    const is_due = long === null || clock.monotonic() - long.at >= long_every_ms;
    const before = ask.anew || is_due ? null : (long?.value ?? null);
    const kept = { known, memory_bytes: ask.memory_bytes, readKernelLog };
    let seen = await lookAtGpus(reader, here, deps, kept, before);
    if (before !== null && shapeOf(seen.snapshot) !== long?.shape) {
      seen = await lookAtGpus(reader, here, deps, kept, null);
    }
    if (seen.long !== before) {
      long = { at: clock.monotonic(), shape: shapeOf(seen.snapshot), value: seen.long };
    }
    settled = settle(settled, judgeGpus(seen.snapshot), ask.anew);
    const gpus = [...settled.values()].map(({ record }) => record);
    remember(seen.snapshot);
    return { gpus, findings: gpuFindings(seen.snapshot, gpus) };
  }

  function remember({ nvidia }: GpuSnapshot): void {
    const news = nvidia.rows.filter((row) => row.errors.length === 0).map(knownOf);
    const all = [...known.filter((one) => !news.some((row) => row.uuid === one.uuid)), ...news];
    const next = all.slice(-most_known).sort((a, b) => (a.uuid < b.uuid ? -1 : 1));
    known = next;
    const text = JSON.stringify(known);
    if (text === written) return;
    written = text;
    deps.memory?.write(known);
  }

  return {
    look(reader, here, ask) {
      const result = looking.then(() => look(reader, here, ask));
      looking = result.catch(() => {});
      return result;
    },
  };
}

function knownOf(row: GpuSnapshot['nvidia']['rows'][number]): KnownGpu {
  const { uuid, pci, name, memory_bytes } = row;
  return { uuid, pci, model: name, memory_bytes: memory_bytes ?? 0 };
}

function isGone(settled: Settling, known: KnownGpu): boolean {
  const record = settled.get(known.uuid)?.record;
  return record?.reasons.some(({ code }) => code === 'gpu_gone') === true;
}

/** What makes a long look worth while: other devices, another driver, another MIG mode. */
function shapeOf({ bus, module, nvidia }: GpuSnapshot): string {
  const cards = bus.displays.map(({ address, driver }) => [address, driver]);
  const rows = nvidia.rows.map(({ uuid, mig, driver_version }) => [uuid, mig, driver_version]);
  return JSON.stringify([cards, module?.version ?? null, rows, nvidia.trouble?.kind ?? null]);
}

/** What counts after a look, by what counted before it. Pure. */
export function settle(before: Settling, seen: readonly GpuRecord[], is_asked: boolean): Settling {
  const after: Settling = new Map();
  const records = new Map(seen.map((record) => [keyOf(record), record]));
  for (const [key, record] of records) {
    const was = before.get(key);
    const text = shape(record);
    if (was === undefined || is_asked || isProven(record, was.record)) {
      after.set(key, { record, other: null });
    } else if (shape(was.record) === text || was.other === text) {
      after.set(key, { record, other: null });
    } else {
      after.set(key, { record: was.record, other: text });
    }
  }
  for (const [key, was] of before) {
    // Left out once may be a look that was cut short.
    const is_new_name = [...records.values()].some((one) => replaces(one, was.record));
    if (records.has(key) || is_asked || is_new_name || was.other === '') continue;
    after.set(key, { record: was.record, other: '' });
  }
  return after;
}

/** Of two troubles that take turns, the worse one stays. */
function isProven({ state }: GpuRecord, was: GpuRecord): boolean {
  return at_once.includes(state) && (state === was.state || isWorse(state, was.state));
}

function keyOf({ uuid, pci, model }: GpuRecord): string {
  return uuid ?? pci ?? model;
}

/** The same device, whose name became known or was lost. */
function replaces(one: GpuRecord, other: GpuRecord): boolean {
  const is_same_place = one.pci !== null && one.pci === other.pci;
  return is_same_place && one.mig_of === null && other.mig_of === null;
}

function shape({ state, usable_by, reasons, memory_bytes, ...rest }: GpuRecord): string {
  const { driver_version, display_attached, mig_mode } = rest;
  const codes = reasons.map(({ code }) => code);
  return JSON.stringify([
    state,
    usable_by,
    codes,
    memory_bytes,
    driver_version,
    display_attached,
    mig_mode,
  ]);
}
