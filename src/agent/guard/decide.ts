/**
 * How far a machine is given back to its owner: one pure decision over what was read.
 *
 * Invariants: nothing rises without a reading that says so; nothing falls before it was quiet for
 * as long as its cause asks (the owner back counts at once, away only after minutes); what cannot
 * be read keeps what was, and begins nothing; each cause is kept by itself, so that one that ends
 * takes nothing of another with it.
 */
import { type GuardLevel, type GuardView, type GuardWhy, guardWhys } from '../../core/guard.ts';
import { isWithin, type Policy } from '../policy.ts';
import type { Readings } from './readings.ts';

type Held = { level: GuardLevel; seen_at: number };
type Causes = Partial<Record<GuardWhy, Held>>;

export type GuardDecision = GuardView & {
  /** When it falls if nothing more is seen, on the clock of `now`; null: nobody can say. */
  until: number | null;
  grace_ms: number;
  /** The owner's own runs are held back as guests' are. */
  everyone: boolean;
  /** What the next decision goes on from. */
  causes: Causes;
  own_causes: Causes;
};

const minute_ms = 60_000;
const gb = 1e9;

/** `now` is on a clock that only rises. */
export function decideGuard(
  readings: Readings,
  policy: Policy,
  before: Pick<GuardDecision, 'causes' | 'own_causes'> | null,
  now: number,
): GuardDecision {
  const { idle_ms } = readings.owner;
  const at = { now, owner_seen_at: typeof idle_ms === 'number' ? now - idle_ms : now };
  const causes = carryOn(before?.causes ?? {}, wantedOf(readings, policy), policy, at);
  const own_causes = carryOn(before?.own_causes ?? {}, ownWantedOf(readings, policy), policy, at);
  const everyone = policy.applies_to === 'everyone' || readings.button?.everyone === true;
  const why = whysOf(causes);
  const own = whysOf(everyone ? { ...own_causes, ...causes } : own_causes);
  return {
    level: levelOf(causes),
    why,
    own_why: own,
    until: untilOf(causes, policy),
    grace_ms: policy.grace_ms,
    everyone,
    causes,
    own_causes,
  };
}

/** What each cause asks for now; null: it cannot be told. */
type Wanted = Record<GuardWhy, GuardLevel | null>;

function wantedOf(readings: Readings, policy: Policy): Wanted {
  const { owner, power, button, foreign_gpus, others_millis } = readings;
  const { idle_ms } = owner;
  // Where nobody can sit, not knowing is no reason.
  const is_here =
    idle_ms === null ? owner.has_screen : idle_ms !== 'nobody' && idle_ms < policy.away_ms;
  return {
    owner_paused: button?.level ?? 0,
    owner_active: is_here ? policy.when_active : idle_ms === null ? null : 0,
    foreign_gpu: foreign_gpus === null ? null : foreign_gpus.length > 0 ? policy.when_gpu_used : 0,
    hot: hotLevel(readings, policy),
    on_battery: power === null ? null : batteryLevel(power, policy),
    memory_low: memoryLevel(readings),
    disk_floor: diskLevel(readings, policy),
    outside_hours: isWithin(policy.hours, readings.minute) ? 0 : 4,
    cpu_busy: others_millis === null ? null : others_millis > keptCpu(readings, policy) ? 2 : 0,
  };
}

/** The owner's own workloads are only kept from starting, and only where the machine would suffer. */
function ownWantedOf(readings: Readings, policy: Policy): Wanted {
  const { disk, memory_available_bytes: available, button } = readings;
  // On a small disk less has to do: what runs there today goes on running.
  const usual = Math.min(gb, (disk?.total_bytes ?? 0) / 100);
  const floor = policy.reserve.disk_bytes ?? usual;
  return {
    ...{ owner_paused: button === null ? 0 : 1, owner_active: 0, foreign_gpu: 0, hot: 0 },
    ...{ on_battery: 0, outside_hours: 0, cpu_busy: 0 },
    memory_low: available === null ? null : available < own_memory_floor ? 1 : 0,
    disk_floor: disk === null ? null : disk.free_bytes < floor ? 1 : 0,
  };
}

const own_memory_floor = 256 * 2 ** 20;

function hotLevel({ cpu_celsius, gpu_celsius }: Readings, { heat }: Policy): GuardLevel | null {
  if (cpu_celsius === null && gpu_celsius === null) return null;
  const over = Math.max(
    (cpu_celsius ?? Number.NEGATIVE_INFINITY) - heat.cpu,
    (gpu_celsius ?? Number.NEGATIVE_INFINITY) - heat.gpu,
  );
  if (over >= 5) return 4;
  return over >= 0 ? 3 : 0;
}

const battery_low_percent = 20;

function batteryLevel(power: { source: string; percent: number | null }, policy: Policy) {
  if (power.source !== 'battery' || policy.on_battery === 0) return 0;
  const is_low = power.percent !== null && power.percent <= battery_low_percent;
  return is_low ? (Math.max(4, policy.on_battery) as GuardLevel) : policy.on_battery;
}

/** A twentieth of the memory, 512 MiB at least and 4 GiB at most. */
function memoryLevel(readings: Readings): GuardLevel | null {
  const { memory_available_bytes: available, memory_stall_percent: stall } = readings;
  if (available === null) return null;
  const least = Math.min(2 ** 32, Math.max(2 ** 29, readings.memory_total_bytes / 20));
  if (available < least / 2 || (stall ?? 0) >= 40) return 4;
  return available < least || (stall ?? 0) >= 10 ? 1 : 0;
}

/** By default 20 GB or a tenth, whichever is more, and a quarter of a small disk at most. */
export function diskFloor(total_bytes: number, policy: Policy): number {
  const usual = Math.min(total_bytes / 4, Math.max(20 * gb, total_bytes / 10));
  return policy.reserve.disk_bytes ?? usual;
}

/** Standing still writes nothing more: that is worth more there than CPU. */
function diskLevel({ disk }: Readings, policy: Policy): GuardLevel | null {
  if (disk === null) return null;
  const floor = diskFloor(disk.total_bytes, policy);
  if (disk.free_bytes < floor / 2) return 3;
  return disk.free_bytes < floor ? 1 : 0;
}

/** What the owner keeps, a quarter of the cores at least. */
function keptCpu({ cores_millis }: Readings, policy: Policy): number {
  return Math.max(policy.reserve.cpu_millis ?? 0, cores_millis / 4);
}

/** How long a cause has to be quiet. What is said in words ends when it is taken back. */
function quietFor(why: GuardWhy, policy: Policy): number {
  if (why === 'owner_paused' || why === 'outside_hours') return 0;
  const is_owner = why === 'owner_active' || why === 'cpu_busy' || why === 'foreign_gpu';
  return is_owner ? policy.away_ms : minute_ms;
}

type Moment = { now: number; owner_seen_at: number };

function carryOn(before: Causes, wanted: Wanted, policy: Policy, at: Moment): Causes {
  const after: Causes = {};
  for (const why of guardWhys) {
    const seen_at = why === 'owner_active' ? at.owner_seen_at : at.now;
    const quiet_ms = quietFor(why, policy);
    const next = carryOnOne(before[why], wanted[why], quiet_ms, { now: at.now, seen_at });
    if (next !== null) after[why] = next;
  }
  return after;
}

function carryOnOne(
  was: Held | undefined,
  wanted: GuardLevel | null,
  quiet_ms: number,
  { now, seen_at }: { now: number; seen_at: number },
): Held | null {
  if (wanted === null) return was === undefined ? null : { ...was, seen_at: now };
  if (was === undefined || wanted >= was.level) {
    return wanted === 0 ? null : { level: wanted, seen_at };
  }
  if (now - was.seen_at < quiet_ms) return was;
  return wanted === 0 ? null : { level: wanted, seen_at };
}

/** Those that weigh most come first. */
function whysOf(causes: Causes): GuardWhy[] {
  const level = (why: GuardWhy) => causes[why]?.level ?? 0;
  return guardWhys.filter((why) => level(why) > 0).sort((a, b) => level(b) - level(a));
}

function levelOf(causes: Causes): GuardLevel {
  let most: GuardLevel = 0;
  for (const { level } of Object.values(causes)) if (level > most) most = level;
  return most;
}

function untilOf(causes: Causes, policy: Policy): number | null {
  const level = levelOf(causes);
  if (level === 0) return null;
  let until = 0;
  for (const why of guardWhys) {
    const held = causes[why];
    if (held === undefined || held.level < level) continue;
    const quiet_ms = quietFor(why, policy);
    if (quiet_ms === 0) return null;
    until = Math.max(until, held.seen_at + quiet_ms);
  }
  return until;
}
