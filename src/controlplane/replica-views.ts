/**
 * Replicas of endpoints as the API shows them.
 *
 * Invariants: of an endpoint with one alone its workload says it all: nothing is listed; a replica
 * whose machine is silent is shown as last heard of, and says so (`heard_of`).
 */
import type { Presence } from '../backends/agent/presence.ts';
import type { ReplicaView } from '../contract/replicas.ts';
import { type Details, fixOf, isReasonCode, sentenceOf } from '../core/reasons.ts';
import type { WorkloadRow } from '../store/events.ts';
import { hasSeveral, listReplicas, type ReplicaRow } from '../store/replicas.ts';
import type { RunRow } from '../store/runs.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import { type QueueView, standingKey } from './queue-view.ts';

type Deps = {
  store: EinsoraStore;
  presence: Pick<Presence, 'isOnline'>;
  queue: Pick<QueueView, 'reason'>;
};
export type PlacedRun = RunRow & { machine_name: string };

/** The replicas of those that have several, by workload. */
export async function replicaRows(
  { store }: Pick<Deps, 'store'>,
  rows: readonly WorkloadRow[],
): Promise<Map<string, ReplicaRow[]>> {
  const workload_ids = rows.filter(hasSeveral).map(({ id }) => id);
  if (workload_ids.length === 0) return new Map();
  const found = await store.read(listReplicas, { workload_ids });
  return Map.groupBy(found, (row) => row.workload_id);
}

/** The run that stands for a workload: of several replicas the first that answers and is heard. */
export function standingRun<Run extends RunRow>(
  row: WorkloadRow,
  runs: readonly Run[],
  presence: Pick<Presence, 'isOnline'>,
): Run | undefined {
  // A row that is answered again (Idempotency-Key) is shown with the run that it had then.
  const own = runs.filter((run) => run.workload_id === row.id && run.run_epoch <= row.run_epoch);
  if (own.length < 2) return own[0];
  const answers = (run: Run) =>
    run.ready_at !== null && run.ended_at === null && run.wanted === 'run';
  return (
    own.find((run) => answers(run) && presence.isOnline(run.machine_id)) ??
    own.find(answers) ??
    own[0]
  );
}

export function replicaViews(
  deps: Deps,
  row: WorkloadRow,
  replicas: readonly ReplicaRow[],
  runs: readonly PlacedRun[],
): { replica_states: ReplicaView[]; replicas_ready: number } {
  const is_up = row.state === 'running';
  if (!hasSeveral(row)) return { replica_states: [], replicas_ready: is_up ? 1 : 0 };
  const replica_states = replicas.map((one) => {
    const run = runs.find(
      ({ workload_id, replica, ended_at }) =>
        workload_id === row.id && replica === one.replica && ended_at === null,
    );
    return viewOf(deps, row, one, run);
  });
  const ready = replica_states.filter(({ state }) => state === 'ready').length;
  return { replica_states, replicas_ready: is_up ? ready : 0 };
}

function viewOf(
  { presence, queue }: Deps,
  row: WorkloadRow,
  one: ReplicaRow,
  run: PlacedRun | undefined,
): ReplicaView {
  const { replica } = one;
  const told = queue.reason(standingKey({ id: row.id, one: { replica } }));
  const code = told?.code ?? one.code;
  const details: Details = told?.details ?? (JSON.parse(one.details) as Details);
  const filled = { name: row.name, ...details };
  const is_told = run === undefined && code !== null && isReasonCode(code);
  return {
    ...{ replica, state: stateOf(one, run) },
    reason: is_told ? { code, message: sentenceOf(code, filled), fix: fixOf(code, filled) } : null,
    machine_name: run?.machine_name ?? null,
    placed_class: run?.placed_class ?? null,
    run_epoch: run?.run_epoch ?? null,
    heard_of: run === undefined || presence.isOnline(run.machine_id),
    restarts: one.attempts,
  };
}

function stateOf(one: ReplicaRow, run: PlacedRun | undefined): ReplicaView['state'] {
  if (run === undefined) return one.state === 'failed' ? 'failed' : 'waiting';
  if (run.wanted !== 'run') return 'ending';
  return run.ready_at === null ? 'preparing' : 'ready';
}
