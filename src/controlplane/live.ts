/**
 * Live events: what changes in the store and among the machines, told to every client of the tenant
 * that it concerns (ADR-0037).
 *
 * Invariants: an event goes to its own tenant's streams alone; what is told of workloads is read
 * from the store in the order of its changes, each once, also over a reconnect; nothing is written;
 * a stream ends with the proof that opened it.
 */
import type { Presence } from '../backends/agent/presence.ts';
import { hasScope } from '../contract/auth.ts';
import { EinsoraError } from '../contract/errors.ts';
import type { LiveEvent } from '../contract/events.ts';
import { limits } from '../contract/limits.ts';
import type { Stage } from '../contract/workloads.ts';
import type { RunKey } from '../core/run.ts';
import type { Clock } from '../lib/clock.ts';
import { describeError, type Log } from '../lib/log.ts';
import { createSignal, type Signal } from '../lib/signal.ts';
import { readIdentity } from '../store/accounts.ts';
import {
  type ChangeCursor,
  type ChangeRow,
  listChanges,
  workloadOwners,
} from '../store/changes.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import type { Principal } from './auth/principal.ts';
import type { Revocations } from './auth/revocations.ts';
import type { Changes } from './changes.ts';
import { cursorText, isAfter, readCursor, startAt } from './live-cursor.ts';
import { createMachineWatch, type MachineWatch } from './live-machines.ts';
import { createLiveStream, eventText, type LiveStream } from './live-stream.ts';
import { eventView } from './workload-views.ts';

export type Live = {
  /** Opens a stream. Throws `too_many_streams`. */
  open(
    principal: Principal,
    last_event_id: string | null,
    hangUp: () => void,
  ): Promise<ReadableStream<Uint8Array>>;
  /** How many are open. */
  streams(): number;
  close(): Promise<void>;
};

export type LiveDeps = {
  store: EinsoraStore;
  changes: Changes;
  presence: Presence;
  revocations: Revocations;
  clock: Clock;
  log: Log;
};

type Listener = {
  principal: Principal;
  stream: LiveStream;
  sees_machines: boolean;
  /** It is told of what comes after; what is before was told when it began. */
  since: ChangeCursor;
};

type Context = LiveDeps & {
  listeners: Set<Listener>;
  /** All up to here was told. */
  told: ChangeCursor;
  /** Stages that changed and were not told yet, by run. */
  stages: Map<string, { run: RunKey; stages: Stage[] }>;
  machines: MachineWatch;
  news: Signal;
  stopping: AbortController;
  running: Promise<void> | null;
};

const page_rows = 500;
/** What comes together is told together. */
const gather_ms = 20;
const look_ms = 1000;

export function createLive(deps: LiveDeps): Live {
  const { changes, presence } = deps;
  const context: Context = {
    ...{ ...deps, listeners: new Set(), stages: new Map(), news: createSignal() },
    ...{ told: startAt(0), machines: createMachineWatch(deps), running: null },
    stopping: new AbortController(),
  };
  const { news, listeners, stopping } = context;
  changes.onSettled((outcome) => {
    // Nobody knows whether it happened: those who follow look anew.
    if (outcome === 'unknown') tellAll(context, { type: 'reset', data: { why: 'store_failed' } });
    news.notify();
  });
  const unwatch = presence.watchStages((run, stages) => {
    if (listeners.size === 0) return;
    context.stages.set(`${run.workload_id} ${run.replica}`, { run, stages });
    news.notify();
  });
  return {
    open: (principal, last_event_id, hangUp) => open(context, principal, last_event_id, hangUp),
    streams: () => listeners.size,
    async close() {
      unwatch();
      stopping.abort();
      for (const { stream } of [...listeners]) stream.end();
      await context.running;
    },
  };
}

/** Tells as long as anybody listens; the first who does starts it. */
async function tell(context: Context): Promise<void> {
  const { clock, log, news, listeners, stopping, stages } = context;
  let beaten_at = clock.monotonic();
  while (!stopping.signal.aborted && listeners.size > 0) {
    try {
      await tellChanges(context);
      await tellStages(context);
      await tellMachines(context);
    } catch (error) {
      log.error({ error: describeError(error) }, 'live events could not be read');
    }
    if (clock.monotonic() - beaten_at >= limits.live_beat_ms) {
      beaten_at = clock.monotonic();
      for (const { stream } of [...listeners]) stream.beat();
    }
    await clock.sleep(gather_ms, stopping.signal);
    await news.wait(clock, look_ms, stopping.signal);
  }
  stages.clear();
  context.running = null;
}

async function open(
  context: Context,
  principal: Principal,
  last_event_id: string | null,
  hangUp: () => void,
): Promise<ReadableStream<Uint8Array>> {
  const { clock, listeners, revocations, store } = context;
  const own = [...listeners].filter((one) => one.principal.user_id === principal.user_id);
  if (own.length >= limits.live_streams_per_user || listeners.size >= limits.live_streams) {
    throw new EinsoraError('too_many_streams', { limit: limits.live_streams_per_user });
  }
  let unwatch = () => {};
  const stream = createLiveStream({
    ...{ clock, hangUp },
    ended() {
      unwatch();
      listeners.delete(listener);
    },
  });
  const sees_machines = hasScope(principal.scopes, 'machines:read');
  // Nobody listened: what happened meanwhile is read for whoever asks for it, or by nobody.
  if (listeners.size === 0) context.told = startAt(context.changes.settledBelow());
  // From here on it gets what comes; what was before `until` is read below and put in front.
  const until = context.told;
  const listener: Listener = { principal, stream, sees_machines, since: until };
  listeners.add(listener);
  context.running ??= tell(context);
  unwatch = revocations.watch(principal, () => stream.end());
  try {
    const { store_uuid } = await store.read(readIdentity, {});
    const hello = eventText({ type: 'hello', data: { store_uuid } }, cursorText(until));
    const before =
      last_event_id === null ? [] : await missed(context, listener, last_event_id, until);
    stream.begin([
      `retry: ${limits.live_retry_ms}\n`,
      ...before,
      hello,
      ...machinesNow(context, listener),
    ]);
  } catch (error) {
    stream.end();
    throw error;
  }
  return stream.body;
}

function machinesNow({ machines }: Context, { principal, sees_machines }: Listener): string[] {
  if (!sees_machines) return [];
  return machines
    .known(principal.tenant_id)
    .map((data) => eventText({ type: 'machine', data }, null));
}

/** What a client did not get while it was away; a `reset` where that is too much to tell. */
async function missed(
  { store }: Context,
  { principal }: Listener,
  last_event_id: string,
  until: ChangeCursor,
): Promise<string[]> {
  const reset = eventText({ type: 'reset', data: { why: 'too_long_ago' } }, null);
  const from = readCursor(last_event_id);
  if (from === null || from.change > until.change) return [reset];
  // What others wrote meanwhile is passed over row by row: that too has an end.
  if (until.change - from.change > limits.live_missed_changes) return [reset];
  let after: ChangeCursor = from;
  const texts: string[] = [];
  const { tenant_id } = principal;
  for (;;) {
    const below = until.change + 1;
    const rows = await store.read(listChanges, { after, below, tenant_id, limit: page_rows });
    // What comes after `until` is told as it comes.
    for (const row of rows) if (!isAfter(cursorOf(row), until)) texts.push(changeText(row));
    const last = rows.at(-1);
    if (last === undefined || rows.length < page_rows) return texts;
    if (texts.length > limits.live_missed_events) return [reset];
    after = last;
  }
}

async function tellChanges(context: Context): Promise<void> {
  const { store, changes, listeners } = context;
  for (;;) {
    const below = changes.settledBelow();
    const args = { after: context.told, below, tenant_id: null, limit: page_rows };
    const rows: ChangeRow[] = await store.read(listChanges, args);
    const last = rows.at(-1);
    const told = last === undefined || rows.length < page_rows ? startAt(below) : cursorOf(last);
    // Somebody who came first meanwhile may have set it further on.
    if (isAfter(told, context.told)) context.told = told;
    for (const row of rows) {
      let text: string | null = null;
      for (const { principal, stream, since } of listeners) {
        const is_theirs = principal.tenant_id === row.tenant_id;
        if (!is_theirs || !isAfter(cursorOf(row), since)) continue;
        text ??= changeText(row);
        stream.push(text);
      }
    }
    if (rows.length < page_rows) return;
  }
}

function cursorOf({ change, workload_id, number }: ChangeRow): ChangeCursor {
  return { change, workload_id, number };
}

function changeText(row: ChangeRow): string {
  const { workload_id, name } = row;
  const data = { workload_id, name, event: eventView(row, name) };
  return eventText({ type: 'workload', data }, cursorText(cursorOf(row)));
}

async function tellStages(context: Context): Promise<void> {
  const { store, stages, listeners } = context;
  const some = [...stages.entries()].slice(0, 200);
  if (some.length === 0) return;
  for (const [key] of some) stages.delete(key);
  const ids = [...new Set(some.map(([, { run }]) => run.workload_id))];
  const owners = await store.read(workloadOwners, { ids });
  for (const [, one] of some) {
    const { workload_id, run_epoch } = one.run;
    const owner = owners.find(({ id }) => id === workload_id);
    if (owner === undefined) continue;
    const data = { workload_id, name: owner.name, run_epoch, stages: one.stages };
    const text = eventText({ type: 'stages', data }, null);
    for (const { principal, stream } of listeners) {
      if (principal.tenant_id === owner.tenant_id) stream.push(text);
    }
  }
}

async function tellMachines({ machines, listeners }: Context): Promise<void> {
  const tenants = new Set([...listeners].map((one) => one.principal.tenant_id));
  for (const { tenant_id, data } of await machines.look(tenants)) {
    const text = eventText({ type: 'machine', data }, null);
    for (const { principal, stream, sees_machines } of listeners) {
      if (sees_machines && principal.tenant_id === tenant_id) stream.push(text);
    }
  }
}

function tellAll({ listeners }: Context, event: LiveEvent): void {
  for (const { stream } of listeners) stream.push(eventText(event, null));
}
