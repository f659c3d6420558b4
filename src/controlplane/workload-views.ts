/**
 * Workloads, plans, events and keys as the API shows them.
 *
 * Invariants: what was last proven is never dressed up as fresh (`heard_of`); no hash, no internal
 * row leaves here.
 */
import type { Presence } from '../backends/agent/presence.ts';
import type {
  EndpointKey,
  Plan,
  ReasonBody,
  Workload,
  WorkloadEvent,
} from '../contract/workloads.ts';
import { builtin_catalog, type Catalog } from '../core/catalog.ts';
import { attempt_limit } from '../core/judge.ts';
import { place } from '../core/placement.ts';
import { type Details, fixOf, isReasonCode, type ReasonCode, sentenceOf } from '../core/reasons.ts';
import type { ReclaimInstant } from '../core/reclaim.ts';
import { requestLimitsOf } from '../core/request-limits.ts';
import { hostSees } from '../core/trust.ts';
import { type MachineView, readSpec } from '../core/workload.ts';
import type { Clock } from '../lib/clock.ts';
import { userNames } from '../store/accounts.ts';
import type { EventRow, WorkloadRow } from '../store/events.ts';
import type { KeyRow } from '../store/keys.ts';
import { readSteady } from '../store/ledger-clock.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import { currentRuns } from '../store/workloads.ts';
import { heldGpus, sharesWith } from './device-views.ts';
import { fallbackViews, takenView } from './fallback-views.ts';
import { heldBack } from './held-back.ts';
import { homesOf } from './home-views.ts';
import { candidatesOf } from './plan-candidates.ts';
import type { QueueView } from './queue-view.ts';
import { workloadReclaim } from './reclaim-view.ts';
import { replicaRows, replicaViews, standingRun } from './replica-views.ts';
import { shownSpec } from './request-extras.ts';
import type { SpecResult } from './request-spec.ts';
import { hostSeesIn, placedView } from './trust-views.ts';
import type { UseView } from './use-view.ts';

export type ViewDeps = {
  store: EinsoraStore;
  presence: Presence;
  clock: Clock;
  queue: Pick<QueueView, 'place' | 'reason' | 'waiting' | 'reserved'>;
  /** Where an OpenAI client points. */
  gateway_url: () => string;
  /** What a workload's run uses. */
  useOf: UseView;
};

/** Who asks: of them the name is known without looking. */
export type Asker = { user_id: string; user_name: string };

export async function workloadViews(
  deps: ViewDeps,
  rows: WorkloadRow[],
  asker: Asker,
): Promise<Workload[]> {
  // What was never placed has no run; what the asker created needs no name looked up.
  const ids = rows.filter((row) => row.run_epoch > 0).map((row) => row.id);
  const runs = ids.length === 0 ? [] : await deps.store.read(currentRuns, { workload_ids: ids });
  const users = await namesOf(deps, rows, asker);
  const gpus = await heldGpus(deps.store, rows);
  const homeOf = await homesOf(deps.store, rows);
  const at = await instantFor(deps, runs);
  const replicas = await replicaRows(deps, rows);
  const views: Workload[] = [];
  for (const row of rows) {
    const run = standingRun(row, runs, deps.presence);
    const spec = readSpec(row.spec);
    const waits = row.state === 'queued' || row.state === 'pending';
    const told = row.state === 'queued' ? deps.queue.reason(row.id) : null;
    views.push({
      id: row.id,
      ...shownSpec(spec),
      name: row.name,
      state: row.state,
      intent: row.intent,
      park_cause: row.park_cause as Workload['park_cause'],
      reason: reasonBody(
        told?.code ?? row.code,
        told?.details ?? (JSON.parse(row.details) as Details),
        row.name,
      ),
      make_room: null,
      queue_place: waits ? deps.queue.place(row.id) : null,
      placement: run === undefined ? null : placementOf(run),
      gpus: gpus.get(row.id) ?? [],
      fallback_taken: takenView(run?.fallback, spec),
      host_sees: run === undefined ? null : hostSees(run.driver, run.driver_as),
      home: homeOf(row),
      heard_of: run === undefined || deps.presence.isOnline(run.machine_id),
      last_heard_at: run === undefined ? null : deps.presence.lastHeardAt(run.machine_id),
      // While it waits again, what its last run went through is history, not progress.
      stages: run === undefined || waits ? [] : deps.presence.stages(run),
      ...replicaViews(deps, row, replicas.get(row.id) ?? [], runs),
      restarts: Math.max(0, row.attempts),
      created_at: row.created_at,
      created_by: users.get(row.creator_id) ?? row.creator_id,
      state_since: row.state_since,
      revision: row.revision,
      url: row.kind === 'endpoint' ? deps.gateway_url() : null,
      reclaim: reclaimOf(row, runs, at),
      ...heldBackView(row, run),
      use: deps.useOf(row, run),
    });
  }
  return views;
}

type Placed = Awaited<ReturnType<typeof currentRuns>>[number];

/** Now, by both clocks; the store is asked only where something is about to be taken back. */
async function instantFor({ store, clock }: ViewDeps, runs: Placed[]): Promise<ReclaimInstant> {
  const at = { now: clock.now(), mono: clock.monotonic() };
  const is_needed = runs.some((run) => run.machine_reclaim !== '');
  return { now: at.now, steady: is_needed ? await store.read(readSteady, at) : at.now };
}

function heldBackView(
  row: WorkloadRow,
  run: Parameters<typeof heldBack>[0],
): Pick<Workload, 'held_back'> {
  const is_here = row.state === 'provisioning' || row.state === 'running';
  const held_back = is_here ? heldBack(run) : null;
  return held_back === null ? {} : { held_back };
}

/** Of the replica that has to go first. */
function reclaimOf(row: WorkloadRow, runs: Placed[], at: ReclaimInstant): Workload['reclaim'] {
  if (row.state !== 'provisioning' && row.state !== 'running') return null;
  const told = runs
    .filter((run) => run.workload_id === row.id && run.wanted === 'run')
    .flatMap((run) => workloadReclaim(run, row.tenant_id, at) ?? []);
  return told.sort((a, b) => a.stops_in_ms - b.stops_in_ms)[0] ?? null;
}

async function namesOf(
  deps: ViewDeps,
  rows: WorkloadRow[],
  { user_id, user_name }: Asker,
): Promise<Map<string, string>> {
  const ids = [...new Set(rows.map((row) => row.creator_id))].filter((id) => id !== user_id);
  const users = ids.length === 0 ? [] : await deps.store.read(userNames, { ids });
  return new Map([...users.map(({ id, name }) => [id, name] as const), [user_id, user_name]]);
}

export async function workloadView(
  deps: ViewDeps,
  row: WorkloadRow,
  asker: Asker,
): Promise<Workload> {
  const [view] = await workloadViews(deps, [row], asker);
  if (view === undefined) throw new Error('a view of one row is one view');
  return view;
}

function placementOf(run: Placed): Workload['placement'] {
  const { machine_id, machine_name, driver, driver_as: as, isolation, isolation_tier } = run;
  const { placed_class, run_epoch } = run;
  const where = { machine_id, machine_name, driver, ...(as === null ? {} : { as }) };
  return { ...where, isolation, isolation_tier, placed_class, run_epoch };
}

/** `over`: what of a quota a launch would exceed now, or null. */
export function planView(
  asked: SpecResult,
  tenant_id: string,
  machines: MachineView[],
  over: Details | null,
  creator_id = '',
  catalog: Catalog = builtin_catalog,
): Omit<Plan, 'download' | 'make_room' | 'queue'> {
  const decision = place(asked.spec, tenant_id, machines, creator_id, catalog);
  return {
    asked: shownSpec(asked.spec),
    defaults: asked.defaults,
    chosen: placedView(decision.chosen, tenant_id, machines),
    shares_with: sharesWith(machines, decision.chosen),
    host_sees: hostSeesIn(decision.chosen),
    reason: reasonBody(decision.code, decision.details, asked.spec.name),
    refused: over === null ? null : reasonBody('quota_exceeded', over, asked.spec.name),
    candidates: candidatesOf(decision),
    machines_not_chosen: decision.refusals.map((refusal) => ({
      machine_name: refusal.machine_name,
      code: refusal.code,
      message: sentenceOf(refusal.code, refusal.details),
      fix: fixOf(refusal.code, refusal.details),
    })),
    classes_not_chosen: asked.classes_not_chosen,
    fallbacks: fallbackViews(asked.spec, tenant_id, machines, creator_id, catalog),
  };
}

export function eventView(row: EventRow, name: string): WorkloadEvent {
  const details = JSON.parse(row.details) as Record<string, unknown>;
  return {
    number: row.number,
    at: row.at,
    kind: row.kind,
    from_state: row.from_state,
    to_state: row.to_state,
    code: row.code,
    message: eventMessage(row, details as Details, name),
    actor: row.actor,
    request_id: row.request_id,
    details,
  };
}

function eventMessage(row: EventRow, details: Details, name: string): string {
  if (row.event === 'place') {
    const gpus = details.gpus ? ` with ${details.gpus}` : '';
    const how = `by ${details.driver} as ${details.placed_class}${gpus}`;
    return `Placed on ${details.machine} ${how}${attemptText(details)}.`;
  }
  if (row.event === 'ready') return 'It answered.';
  if (row.event === 'parked') return 'Nothing of it runs any more.';
  if (row.event === 'removed') return 'Nothing of it is left.';
  if (row.code === null) return row.event ?? 'note';
  const sentence = sentenceOf(row.code, { name, ...details });
  // Where it was is part of why another machine is tried.
  const machine = row.event === 'replace' ? details.machine : null;
  if (!machine || sentence.includes(String(machine))) return sentence;
  return `${sentence} That was on ${machine}.`;
}

/** `, attempt 2 of 3, after m1`. */
function attemptText({ attempt, avoided = null, machine }: Details): string {
  if (typeof attempt !== 'number') return '';
  const after = avoided === null || avoided === machine ? '' : `, away from ${avoided}`;
  return `, attempt ${attempt} of ${attempt_limit}${after}`;
}

export function keyView(row: KeyRow, use: EndpointKey['use']): EndpointKey {
  const { id, workload_id, last_four, created_at, expires_at, revoked_at } = row;
  const limits = requestLimitsOf(row);
  return { id, workload_id, limits, use, last_four, created_at, expires_at, revoked_at };
}

function reasonBody(code: string | null, details: Details, name: string): ReasonBody | null {
  if (code === null || !isReasonCode(code)) return null;
  const filled = { name, ...details };
  return { code, message: sentenceOf(code as ReasonCode, filled), fix: fixOf(code, filled) };
}
