/**
 * What must hold of the store after each commit, seen from outside: by number, as the reference
 * counts them.
 *
 * Invariants: what is looked at is what was touched; a mirror of each timeline is played forward
 * event by event, so that replay and state are compared at every step and not only at the end.
 */
import { attempt_limit } from '../../src/core/judge.ts';
import { nextState, type State, type StateEvent } from '../../src/core/states.ts';
import { checkFallback } from './fallbacks.ts';
import { createLedgerCheck, type LedgerCheck } from './ledger-invariants.ts';
import { createMachineCheck, type MachineCheck } from './machine-invariants.ts';
import { checkPlaces } from './place-invariants.ts';
import { createReclaimCheck, type ReclaimCheck } from './reclaim-invariants.ts';
import type { Story } from './story.ts';
import type { Touched, Watch } from './watch.ts';

/** What the checks ask of the real world. */
export type Truth = {
  isAlive(run_name: string): boolean;
  /** The true time at which its process ended, where that is over. */
  endedAt(run_name: string): number | null;
  /** When the control plane's wall clock was last set to another time. */
  steppedAt(): number;
};

type WorkloadRow = {
  id: string;
  state: State;
  intent: string;
  run_epoch: number;
  event_number: number;
  attempts: number;
  replicas: number;
};
type EventRow = {
  number: number;
  at: number;
  kind: 'state' | 'note';
  event: string;
  from_state: State | null;
  to_state: State;
  code: string | null;
};
type RunRow = {
  run_epoch: number;
  replica: number;
  machine_id: string;
  wanted: string;
  ready_at: number | null;
  ended_at: number | null;
  removed_at: number | null;
  superseded_at: number | null;
  held: number;
  released: number;
};

type Mirror = {
  number: number;
  at: number;
  state: State | null;
  run_epoch: number;
  /** True time of an end that only a later attempt may follow; null where none is. */
  failed_at: number | null;
};
export type Invariants = {
  /** Looks at what was touched. */
  check(touched: Touched): void;
  /** Looks at everything. */
  checkAll(): void;
  /** Begins anew with what a restored store holds. */
  reset(watch: Watch): void;
  /** Nobody can know how long what is measured now really is. */
  forgive(): void;
};

type Context = {
  story: Story;
  truth: Truth;
  watch: Watch;
  timelines: Map<string, Mirror>;
  machines: MachineCheck;
  ledger: LedgerCheck;
  reclaims: ReclaimCheck;
};

export function createInvariants(story: Story, watch: Watch, truth: Truth): Invariants {
  const context: Context = {
    ...{ story, truth, watch, timelines: new Map(), machines: createMachineCheck(story) },
    ...{ ledger: createLedgerCheck(story, truth), reclaims: createReclaimCheck(story) },
  };
  const checkMachine = (id: string, is_loss: boolean) => {
    context.machines.check(context.watch, id, is_loss);
    context.reclaims.check(context.watch, id);
  };
  return {
    check(touched) {
      const { losers } = touched;
      for (const id of touched.workloads) checkWorkload(context, id, losers.has(id));
      for (const id of touched.machines) checkMachine(id, losers.has(id));
      if (touched.workloads.size > 0) checkQuota(story, context.watch);
    },
    forgive: () => context.ledger.forgive(),
    checkAll() {
      const idsOf = (table: string) => context.watch.all<{ id: string }>(`select id from ${table}`);
      context.timelines.clear();
      for (const { id } of idsOf('workloads')) checkWorkload(context, id, true);
      for (const { id } of idsOf('machines')) checkMachine(id, true);
    },
    reset(restored) {
      context.watch = restored;
      context.ledger.restored(restored);
      context.reclaims.reset();
      context.timelines.clear();
      context.machines.reset();
    },
  };
}

/** `is_loss`: where it is not in the store, it was, for what never came to be is touched as well. */
function checkWorkload(context: Context, id: string, is_loss: boolean): void {
  const { story, truth, watch, timelines, ledger } = context;
  const row = watch.get<WorkloadRow>(
    `select id, state, intent, run_epoch, event_number, attempts, replicas from workloads
     where id = ?1`,
    id,
  );
  if (row === undefined) {
    if (is_loss || timelines.has(id)) story.violate('I-04', `${id} is gone from the store`);
    return;
  }
  const mirror = timelines.get(id) ?? newMirror();
  timelines.set(id, mirror);
  const events = eventsAfter(watch, id, mirror.number);
  checkBackOff(story, truth, id, mirror, events);
  playOn(story, id, mirror, events);
  if (mirror.state !== row.state || mirror.number !== row.event_number) {
    const replayed = `${mirror.state} at ${mirror.number}`;
    story.violate('I-17', `${id} is ${row.state} at ${row.event_number}, replay: ${replayed}`);
  }
  if (row.run_epoch < mirror.run_epoch) story.violate('I-03', `${id}: its run_epoch fell`);
  mirror.run_epoch = row.run_epoch;
  if (row.attempts > attempt_limit) {
    story.violate('bounded', `${id} was tried ${row.attempts} times`);
  }
  checkPlaces(story, watch, id);
  const runs = runsOf(watch, id);
  context.reclaims.checkAge(watch, id);
  checkRuns(story, truth, row, runs);
  checkFallback(story, watch, id);
  const answering = row.state === 'running' ? answeringOf(row, runs) : 0;
  if (row.state === 'running' && answering === 0) {
    story.violate('replicas', `${id} is running and none of its runs answers`);
  }
  const holding = runs.filter((run) => run.held > run.released).length;
  ledger.check(watch, id, { answering, holding });
  checkReplicas(story, watch, row);
}

/** Of each replica that is wanted, the run that counts, where it is ready. */
function answeringOf({ replicas }: WorkloadRow, runs: readonly RunRow[]): number {
  return runs.filter(
    (run) => isCounted(run, replicas) && run.wanted === 'run' && run.ready_at !== null,
  ).length;
}

function isCounted(run: RunRow, replicas: number): boolean {
  return run.replica < replicas && run.superseded_at === null && run.ended_at === null;
}

/** There is a row for each of several replicas, and none was tried too often. */
function checkReplicas(story: Story, watch: Watch, { id, replicas, state }: WorkloadRow): void {
  const rows = watch.all<{ replica: number; attempts: number }>(
    'select replica, attempts from replicas where workload_id = ?1 order by replica',
    id,
  );
  const wanted = replicas === 1 || state === 'deleted' ? 0 : replicas;
  if (rows.length !== wanted || rows.some(({ replica }, index) => replica !== index)) {
    story.violate('replicas', `${id} wants ${replicas} replicas and knows of ${rows.length}`);
  }
  if (rows.some(({ attempts }) => attempts > attempt_limit)) {
    story.violate('bounded', `a replica of ${id} was tried too often`);
  }
}

function newMirror(): Mirror {
  return { number: 0, at: 0, state: null, run_epoch: 0, failed_at: null };
}

/** The least that passes between an end that counts as an attempt and the next one. */
const back_off_ms = 1000;
const uncounted = [
  'machine_rebooted',
  'machine_fenced',
  // Another replica than the one that ended may be the one that is placed next.
  'replica_unheard',
  'replica_lost',
  'replica_failed',
  'replica_taken_away',
  'replica_preempted',
  'replicas_scaled',
];

function checkBackOff(
  story: Story,
  truth: Truth,
  id: string,
  mirror: Mirror,
  events: readonly EventRow[],
): void {
  const now = story.time.now();
  if (mirror.number === 0) return; // it is looked at anew, and nobody knows when that was
  for (const { event, code } of events) {
    if (event === 'place' && mirror.failed_at !== null) {
      const rested = now - mirror.failed_at;
      const is_stepped = truth.steppedAt() >= mirror.failed_at;
      if (rested < back_off_ms && !is_stepped) {
        story.violate('bounded', `${id} is tried again after ${rested} ms`);
      }
    }
    if (event === 'replace' && !uncounted.includes(code ?? '')) mirror.failed_at = now;
    else if (event !== null) mirror.failed_at = null;
  }
}

/** I-14: what is claimed never exceeds a limit that never changes. */
function checkQuota(story: Story, watch: Watch): void {
  const over = watch.get<{ slug: string; claimed: number }>(
    `select t.slug, (select count(*) from workloads w where w.tenant_id = q.tenant_id
         and w.state not in ('stopped', 'failed', 'deleting', 'deleted')) as claimed, q.workloads
     from quotas q join tenants t on t.id = q.tenant_id where claimed > q.workloads`,
  );
  if (over !== undefined) story.violate('I-14', `${over.slug} claims ${over.claimed} workloads`);
}

function eventsAfter(watch: Watch, id: string, number: number): EventRow[] {
  return watch.all<EventRow>(
    `select number, at, kind, event, from_state, to_state, code from workload_events
     where workload_id = ?1 and number > ?2 order by number`,
    id,
    number,
  );
}

function runsOf(watch: Watch, id: string): RunRow[] {
  return watch.all<RunRow>(
    `select r.run_epoch, r.replica, r.machine_id, r.wanted, r.ready_at, r.ended_at, r.removed_at,
       r.superseded_at,
       (select count(*) from holds h where h.workload_id = r.workload_id
          and h.replica = r.replica and h.run_epoch = r.run_epoch) as held,
       (select count(*) from holds h where h.workload_id = r.workload_id
          and h.replica = r.replica and h.run_epoch = r.run_epoch
          and h.released_at is not null) as released
     from runs r where r.workload_id = ?1 and r.removed_at is null order by r.run_epoch`,
    id,
  );
}

/** Plays a timeline forward, and says where it has a gap, turns back, or skips a state. */
function playOn(story: Story, id: string, mirror: Mirror, events: readonly EventRow[]): void {
  for (const event of events) {
    if (event.number !== mirror.number + 1) {
      story.violate('I-18', `${id}: event ${event.number} follows ${mirror.number}`);
    }
    if (event.at < mirror.at) story.violate('I-18', `${id}: event ${event.number} is older`);
    mirror.number = event.number;
    mirror.at = event.at;
    if (event.kind !== 'state') continue;
    const first = mirror.state === null;
    const to =
      mirror.state === null ? 'pending' : nextState(mirror.state, event.event as StateEvent);
    if (event.to_state !== to || (!first && event.from_state !== mirror.state)) {
      const told = `${event.from_state} -> ${event.event} -> ${event.to_state}`;
      story.violate('I-17', `${id}: event ${event.number} says ${told} in ${mirror.state}`);
    }
    mirror.state = event.to_state;
  }
}

function checkRuns(story: Story, truth: Truth, row: WorkloadRow, runs: readonly RunRow[]): void {
  const open = runs.filter((run) => run.ended_at === null && run.superseded_at === null);
  if (new Set(open.map(({ replica }) => replica)).size < open.length) {
    story.violate('I-03', `${row.id} has two runs of one replica that count`);
  }
  const waits = row.state === 'pending' || row.state === 'queued';
  if (waits && open.some((run) => isCounted(run, row.replicas) && run.wanted === 'run')) {
    story.violate('replicas', `${row.id} is ${row.state}, and a run of it is wanted`);
  }
  if (runs.some((run) => run.superseded_at !== null && run.wanted === 'run')) {
    story.violate('replicas', `${row.id} has a run that another follows, and it is wanted`);
  }
  for (const run of runs) {
    const name = `${row.id}.${run.replica}.${run.run_epoch}`;
    if (run.run_epoch > row.run_epoch) story.violate('I-03', `${name} is ahead of its workload`);
    const is_held = run.held > run.released;
    if (run.held === 0) story.violate('I-01', `${name} holds nothing`);
    if (is_held !== (run.ended_at === null)) {
      story.violate('I-02', `${name}: ended ${run.ended_at !== null}, held ${is_held}`);
    }
    if (!is_held && truth.isAlive(name)) {
      story.violate('I-02', `${name} lives and what it held was freed`);
    }
  }
  const proven = row.state === 'stopped' || row.state === 'deleted' || row.state === 'failed';
  // What fails has nothing to do with replicas that are still to go.
  const left = row.state === 'failed' ? open.filter((run) => isCounted(run, row.replicas)) : open;
  if (proven && left.length > 0) {
    story.violate('I-02', `${row.id} is ${row.state} and a run of it is not proven gone`);
  }
  if (row.state === 'deleted' && runs.length > 0) {
    story.violate('I-02', `${row.id} is deleted and something of it is left`);
  }
}
