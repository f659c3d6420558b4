/**
 * Fallbacks of a story: which launches ask for them, and what must hold of each run that is placed.
 *
 * Invariants: drawn apart, so that who adds to it changes no other part of a story; looked at from
 * outside, by the rows alone.
 */
import type { AskedMachine, WorkloadSpec } from '../../src/core/workload.ts';
import { sizes } from './amounts.ts';
import { createChance } from './chance.ts';
import type { Item } from './schedule.ts';
import type { Story } from './story.ts';
import type { Watch } from './watch.ts';

/** `machines`: the one that is asked for, and one that may stand in; modulo what there is. */
export type Falls = { after_ms: number; back: boolean; machines: [number, number] | null };

const minute_ms = 60_000;

/** Some launches ask for one machine, most of them name another size or machine that would do. */
export function withFallbacks(seed: number, items: readonly Item[]): Item[] {
  const chance = createChance(seed, 'fallbacks');
  return items.map((item) => {
    if (item.does !== 'launch' || !chance.is(0.5)) return item;
    const machines: Falls['machines'] = chance.is(0.25)
      ? [chance.between(0, 999), chance.between(0, 999)]
      : null;
    const after_ms = chance.pick([0, minute_ms, 10 * minute_ms]);
    return { ...item, falls: { after_ms, back: chance.is(0.5), machines } };
  });
}

/** The spec with what may stand in for it. */
export function specThatFalls(
  spec: WorkloadSpec,
  falls: Falls | undefined,
  machineOf: (number: number) => AskedMachine,
): WorkloadSpec {
  if (falls === undefined) return spec;
  const { after_ms: fallback_after_ms, back: fallback_return, machines } = falls;
  const smaller = sizes.filter((size) => size.memory_bytes < spec.memory_bytes).toReversed();
  const cpu = { step: 'cpu', set: { accelerator: 'cpu', gpu_count: 0 } };
  const steps = [
    ...(spec.gpu_count === 0 ? [] : [cpu]),
    ...smaller.map((set) => ({ step: `class:${set.memory_bytes}`, set: { ...set } })),
  ];
  if (machines === null) {
    return { ...spec, fallback: steps, fallback_after_ms, fallback_return };
  }
  const [machine, other] = machines.map(machineOf) as [AskedMachine, AskedMachine];
  const moved = { step: `machine:${other.name}`, set: { machine: other } };
  return { ...spec, machine, fallback: [moved, ...steps], fallback_after_ms, fallback_return };
}

type RunRow = {
  run_epoch: number;
  machine_id: string;
  fallback: string;
  cpu_millis: number;
  memory_bytes: number;
  gpus: number;
};
type EventRow = {
  number: number;
  at: number;
  event: string;
  code: string | null;
  details: string;
} & {
  from_state: string | null;
  to_state: string;
};

/** I-15: each run is what was asked, or a step of the list after its wait, and says which. */
export function checkFallback(story: Story, watch: Watch, id: string): void {
  const row = watch.get<{ spec: string }>('select spec from workloads where id = ?1', id);
  const run = watch.get<RunRow>(
    `select r.run_epoch, r.machine_id, r.fallback, h.cpu_millis, h.memory_bytes,
       (select count(*) from holds d where d.workload_id = r.workload_id
          and d.replica = r.replica and d.run_epoch = r.run_epoch and d.device <> '') as gpus
     from runs r join holds h on h.workload_id = r.workload_id and h.replica = r.replica
       and h.run_epoch = r.run_epoch and h.device = ''
     where r.workload_id = ?1 order by r.run_epoch desc limit 1`,
    id,
  );
  if (row === undefined || run === undefined) return;
  const spec = JSON.parse(row.spec) as WorkloadSpec;
  const taken = run.fallback === '' ? null : (JSON.parse(run.fallback) as { step: number });
  const step = taken === null ? { set: {} } : spec.fallback[taken.step - 1];
  const say = (what: string) => story.violate('I-15', `${id} run ${run.run_epoch}: ${what}`);
  if (step === undefined) {
    say(`there is no step ${taken?.step}`);
    return;
  }
  const placed = { ...spec, ...step.set };
  if (run.cpu_millis !== placed.cpu_millis || run.memory_bytes !== placed.memory_bytes) {
    say(`it holds ${run.cpu_millis} and ${run.memory_bytes}, which nobody asked for`);
  }
  if (run.gpus !== placed.gpu_count) say(`it has ${run.gpus} GPUs, not ${placed.gpu_count}`);
  if (placed.machine !== null && placed.machine.id !== run.machine_id) {
    say(`it is on ${run.machine_id}, not on ${placed.machine.id}`);
  }
  const times = timesOf(story, watch, id);
  if (taken !== null) checkWait(watch, times, id, run.run_epoch, spec.fallback_after_ms, say);
  if (spec.fallback_return) checkReturn(watch, times, id, say);
}

/** Of an event, by its number, when it was first seen; null where it was there before. */
type Times = ReadonlyMap<number, number | null>;
const seen = new WeakMap<Watch, Map<string, Map<number, number | null>>>();

/** In virtual time: what a timeline says stands still once a clock was set back. */
function timesOf(story: Story, watch: Watch, id: string): Times {
  const all = seen.get(watch) ?? new Map<string, Map<number, number | null>>();
  seen.set(watch, all);
  const known = all.get(id);
  const times = known ?? new Map<number, number | null>();
  all.set(id, times);
  const news = watch.all<{ number: number }>(
    'select number from workload_events where workload_id = ?1 and number > ?2 order by number',
    id,
    Math.max(0, ...times.keys()),
  );
  const is_new = known !== undefined || news.length === 1;
  for (const { number } of news) times.set(number, is_new ? story.time.now() : null);
  return times;
}

type Moment = { number: number; at: number };

/**
 * By the wall clock, which may be set ahead meanwhile, or in virtual time; null where one of them
 * was there before anybody looked.
 */
function between(times: Times, from: Moment, to: Moment): number | null {
  const [begun = null, ended = null] = [times.get(from.number), times.get(to.number)];
  return begun === null || ended === null ? null : Math.max(to.at - from.at, ended - begun);
}

/** The least between a placement by a fallback and going back from it. */
const return_after_ms = 30 * minute_ms;

function checkReturn(watch: Watch, times: Times, id: string, say: (what: string) => void): void {
  const last = watch.get<Moment & { placed: number; placed_at: number }>(
    `select e.number, e.at, max(p.number) as placed, max(p.at) as placed_at
     from workload_events e join workload_events p
       on p.workload_id = e.workload_id and p.event = 'place' and p.number < e.number
     where e.workload_id = ?1 and e.event = 'stop' and e.code = 'returning_to_asked'
     group by e.number order by e.number desc limit 1`,
    id,
  );
  if (last === undefined) return;
  const passed_ms = between(times, { number: last.placed, at: last.placed_at }, last);
  if (passed_ms === null || passed_ms >= return_after_ms) return;
  say(`it went back ${passed_ms} ms after it was placed`);
}

/** From when it began to wait until it was placed, as its timeline says. */
function checkWait(
  watch: Watch,
  times: Times,
  id: string,
  run_epoch: number,
  after_ms: number,
  say: (what: string) => void,
): void {
  const events = watch.all<EventRow>(
    `select number, at, event, code, details, from_state, to_state from workload_events
     where workload_id = ?1 and kind = 'state' order by number`,
    id,
  );
  const last = events.findLastIndex(
    ({ event, details }) => event === 'place' && JSON.parse(details).run_epoch === run_epoch,
  );
  const place = events[last];
  // A replica beside others is placed as they are, without an event of the workload.
  if (place === undefined) return;
  const before = events.slice(0, last);
  // From its launch, its start or the end of its last run, whether it was told to queue or not.
  const begun = before.findLast(
    ({ from_state, to_state }) => !isWaiting(from_state) && isWaiting(to_state),
  );
  const earlier = before.findLastIndex(({ event }) => event === 'place');
  const gave_up = before.slice(earlier + 1).some(({ code }) => code === 'returning_to_asked');
  // One that follows a run that nobody has heard of goes on as what that one was (ADR-0063).
  if (begun === undefined || gave_up || begun.code === 'replica_unheard') return;
  const waited = between(times, begun, place);
  if (waited !== null && waited < after_ms) say(`it fell back after ${waited} ms, not ${after_ms}`);
}

function isWaiting(state: string | null): boolean {
  return state === 'pending' || state === 'queued';
}
