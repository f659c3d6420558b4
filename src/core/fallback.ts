/**
 * Fallback: an opt-in, ordered list of what may stand in for what was asked, after a wait
 * (ADR-0059).
 *
 * Invariants: pure; a step is what it changes of the spec, worked out when it was asked for, so
 * that a catalog that changes later never widens it; the kind stays; nothing outside the list is
 * ever allowed; a machine or a region is no choice any more once a workload has its home.
 */
import { askText } from './ask.ts';
import { formatDuration, formatMemory } from './format.ts';
import type { Details } from './reasons.ts';
import { readSpec, type WorkloadSpec } from './workload.ts';

export const step_sorts = ['class', 'cpu', 'machine', 'replica', 'model', 'region'] as const;
export type StepSort = (typeof step_sorts)[number];

/** What a step may change of a spec. */
export const step_fields = [
  'region',
  'machine',
  'accelerator',
  'gpu_class',
  'gpu_count',
  'gpu_memory_bytes',
  'gpu_model',
  'cpu_millis',
  'memory_bytes',
  'model',
] as const satisfies readonly (keyof WorkloadSpec)[];
export type StepSet = Partial<Pick<WorkloadSpec, (typeof step_fields)[number]>>;

/** `step`: as it is asked for, `class:l40s-48gb` or `cpu`. */
export type FallbackStep = { step: string; set: StepSet };

/** What a run is that was placed by a step: kept with the run, whatever becomes of the list. */
export type TakenFallback = {
  /** From 1. */
  step: number;
  of: number;
  to: string;
  asked: string;
  placed: string;
  waited_ms: number;
  set: StepSet;
};

export const default_fallback_after_ms = 10 * 60_000;

/** `class:NAME` gives its sort and the name; null where it is none. */
export function parseStep(text: string): { sort: StepSort; name: string } | null {
  const [, sort, name = ''] = /^([a-z]+)(?::(.+))?$/s.exec(text) ?? [];
  const found = step_sorts.find((one) => one === sort);
  if (found === undefined) return null;
  const is_alone = found === 'cpu' || found === 'replica';
  return is_alone === (name === '') ? { sort: found, name } : null;
}

/** The spec that step `number` (from 1) makes of another one; null where the list has none. */
export function stepSpec(spec: WorkloadSpec, number: number): WorkloadSpec | null {
  const step = spec.fallback[number - 1];
  return step === undefined ? null : { ...spec, ...step.set };
}

/** What `changed` has that `spec` has not, of the fields that a step may change. */
export function changesOf(spec: WorkloadSpec, changed: WorkloadSpec): StepSet {
  const fields = step_fields.filter(
    (field) => JSON.stringify(spec[field]) !== JSON.stringify(changed[field]),
  );
  return Object.fromEntries(fields.map((field) => [field, changed[field]]));
}

/** Where it would go elsewhere: only before it has a home. */
export function movesAway({ set }: FallbackStep): boolean {
  return set.machine !== undefined || set.region !== undefined;
}

/** What admission tries after a wait, as text beside the ask; empty where there is none. */
export function fallbackText(spec: WorkloadSpec): string {
  const { fallback, fallback_after_ms: after_ms } = spec;
  // A step that changes nothing of the spec is not admission's.
  const steps = fallback.flatMap((step, index) =>
    Object.keys(step.set).length === 0
      ? []
      : [{ number: index + 1, ask: askText({ ...spec, ...step.set }), moves: movesAway(step) }],
  );
  return steps.length === 0 ? '' : JSON.stringify({ after_ms, steps });
}

export type WaitingFallback = {
  after_ms: number;
  steps: { number: number; ask: string; moves: boolean }[];
};

/** Whether one that waits since then may fall back; without a wait, whatever the clock did. */
export function isDue(state_since: number, after_ms: number, now: number): boolean {
  return after_ms <= 0 || now - state_since >= after_ms;
}

export function takenOf(
  spec: WorkloadSpec,
  number: number,
  placed_class: string,
  waited_ms: number,
): TakenFallback | null {
  const step = spec.fallback[number - 1];
  const sort = step === undefined ? null : parseStep(step.step)?.sort;
  if (step === undefined || sort === undefined || sort === null) return null;
  return {
    ...{ step: number, of: spec.fallback.length, to: step.step },
    asked: inWords(spec, sort),
    placed: sort === 'class' || sort === 'cpu' ? placed_class : step.step.replace(':', ' '),
    ...{ waited_ms: Math.max(0, waited_ms), set: step.set },
  };
}

/** The details of the note on its timeline. */
export function takenDetails(
  taken: TakenFallback,
  on: { machine_name: string; placed_class: string },
): Details {
  const { asked, placed, to, step, of } = taken;
  const { machine_name: machine, placed_class } = on;
  const waited = formatDuration(taken.waited_ms);
  return { asked, placed, placed_class, to, step, of, machine, waited };
}

/** Of a run's row; null where it was placed as asked. */
export function readTaken(text: string | undefined): TakenFallback | null {
  return text === undefined || text === '' ? null : (JSON.parse(text) as TakenFallback);
}

/** The spec that a run has: what its workload asks, or what stands in for that. */
export function placedSpec(spec: string, fallback: string | undefined): WorkloadSpec {
  return { ...readSpec(spec), ...readTaken(fallback)?.set };
}

/**
 * The value of the header that a gateway answers with: `none`, or what stood in for what. Whoever
 * may not know of machines (`is_owner` false) is told of none.
 */
export function fallbackHeader(taken: TakenFallback | null, is_owner = true): string {
  if (taken === null) return 'none';
  const told = (text: string) => (is_owner ? text : text.replace(/^machine .*/s, 'machine'));
  const plain = (text: string) => told(text).replace(/[^\x21-\x3a\x3c-\x7e]/g, '_');
  return `asked=${plain(taken.asked)}; placed=${plain(taken.placed)}; reason=waited`;
}

/** That of what was asked which a step of this sort replaces. */
function inWords(spec: WorkloadSpec, sort: StepSort): string {
  switch (sort) {
    case 'machine':
      return `machine ${spec.machine?.name ?? 'any'}`;
    case 'region':
      return `region ${spec.region}`;
    case 'model':
      return `model ${spec.model ?? ''}`;
    default: {
      const { gpu_class, accelerator, cpu_millis, memory_bytes } = spec;
      const size = gpu_class ?? `${cpu_millis / 1000} CPU and ${formatMemory(memory_bytes)}`;
      const is_said = accelerator === null || !size.startsWith('cpu-') || accelerator === 'cpu';
      return is_said ? size : `${size} on ${accelerator}`;
    }
  }
}
