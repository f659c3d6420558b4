/**
 * What must hold of machines that are taken back, after each commit.
 *
 * Invariants: nothing concerned is wanted on a machine that is held, from the commit that took it;
 * nothing new of those concerned is placed there from the commit that began the grace.
 */
import { isConcerned, type Reclaim } from '../../src/core/reclaim.ts';
import type { Story } from './story.ts';
import type { Watch } from './watch.ts';

export type ReclaimCheck = {
  check(watch: Watch, machine_id: string): void;
  /** A workload keeps the age that it was launched with, whatever becomes of it. */
  checkAge(watch: Watch, workload_id: string): void;
  /** Begins anew with what a restored store holds. */
  reset(): void;
};

/** What was there when it began to be barred, or at the last look since. */
type Barred = { since: string; runs: Set<string> };
type Row = { tenant_id: string; reclaim: string; reclaim_bars: string };
type RunRow = { name: string; tenant_id: string; wanted: string; ended_at: number | null };

export function createReclaimCheck(story: Story): ReclaimCheck {
  const barred = new Map<string, Barred>();
  const ages = new Map<string, number>();
  return {
    reset() {
      barred.clear();
      ages.clear();
    },
    checkAge(watch, id) {
      const text = 'select created_at from workloads where id = ?1';
      const { created_at = 0 } = watch.get<{ created_at: number }>(text, id) ?? {};
      const before = ages.get(id) ?? created_at;
      if (before !== created_at) story.violate('reclaim', `${id} is younger than it was`);
      ages.set(id, created_at);
    },
    check(watch, machine_id) {
      const row = watch.get<Row>(
        'select tenant_id, reclaim, reclaim_bars from machines where id = ?1',
        machine_id,
      );
      const state = row === undefined || row.reclaim === '' ? null : readReclaim(row.reclaim);
      if (row === undefined || state === null || state.phase === 'idle') {
        barred.delete(machine_id);
        if ((row?.reclaim_bars ?? '') !== '') {
          story.violate('reclaim', `${machine_id} is nobody's to take back, and bars somebody`);
        }
        return;
      }
      const runs = watch
        .all<RunRow>(runs_sql, machine_id)
        .filter((run) => isConcerned(state.scope, row.tenant_id, run.tenant_id));
      const since = `${state.scope} ${state.since} ${row.tenant_id}`;
      const before = barred.get(machine_id);
      for (const run of runs) {
        if (before?.since === since && !before.runs.has(run.name)) {
          story.violate('reclaim', `${run.name} was placed on ${machine_id}, which is taken back`);
        }
        if (state.phase === 'held' && run.wanted === 'run' && run.ended_at === null) {
          story.violate('reclaim', `${run.name} is wanted on ${machine_id}, which is held`);
        }
      }
      barred.set(machine_id, { since, runs: new Set(runs.map(({ name }) => name)) });
    },
  };
}

const runs_sql = `select r.workload_id || '.' || r.replica || '.' || r.run_epoch as name,
    w.tenant_id, r.wanted, r.ended_at
  from runs r join workloads w on w.id = r.workload_id where r.machine_id = ?1`;

function readReclaim(text: string): Reclaim {
  return JSON.parse(text) as Reclaim;
}

/** No grace lasts longer than it was given, by the clock that it is given by. */
function checkGraces(story: Story, watch: Watch): void {
  const { steady = 0 } =
    watch.get<{ steady: number }>('select seen_steady as steady from ledger_clock') ?? {};
  const rows = watch.all<{ id: string; reclaim: string }>(
    "select id, reclaim from machines where reclaim <> ''",
  );
  for (const { id, reclaim } of rows) {
    const { phase, due } = readReclaim(reclaim);
    if (phase === 'grace' && steady > due + late_ms) {
      story.violate('reclaim', `${id} should be held since ${steady - due} ms`);
    }
  }
}

/** A look comes so late at most, where nothing fails. */
const late_ms = 10_000;

type Preempted = { id: string; reclaim: string | null; owner: string | null; tenant_id: string };

/** Once everything was well for long enough: who was preempted runs, unless it is not their turn. */
export function checkResumed(story: Story, watch: Watch): void {
  checkGraces(story, watch);
  const rows = watch.all<Preempted>(
    `select w.id, m.reclaim, m.tenant_id as owner, w.tenant_id from workloads w
       left join runs r on r.workload_id = w.id and r.run_epoch = w.run_epoch
       left join machines m on m.id = r.machine_id
     where w.park_cause = 'preempted' and w.state = 'stopped' and w.intent = 'running'
       and coalesce(w.code, '') <> 'quota_exceeded'`,
  );
  for (const { id, reclaim, owner, tenant_id } of rows) {
    const state = reclaim === null || reclaim === '' ? null : readReclaim(reclaim);
    const waits = state !== null && state.phase !== 'idle';
    if (waits && isConcerned(state.scope, owner ?? '', tenant_id)) continue;
    story.violate('reclaim', `${id} was preempted, and its machine is free`);
  }
}
