/**
 * The one state machine of a workload: State x Event -> State.
 *
 * Invariants: a pair that is not in the table is refused; `stop` and `delete` are accepted in every
 * state but `deleted`; nothing leaves `deleted`. The store's `moveWorkload` is the only writer of
 * state and asks this table.
 */
export const states = [
  'pending',
  'queued',
  'provisioning',
  'running',
  'stopping',
  'stopped',
  'failed',
  'deleting',
  'deleted',
] as const;
export type State = (typeof states)[number];

export const stateEvents = [
  /** Valid, but nothing is free for it. */
  'queue',
  /** A run was placed on a machine. */
  'place',
  /** The run was observed ready. */
  'ready',
  /** The run ended without being asked to; another one is to be placed. */
  'replace',
  /** No replica of it is ready any more, and another one is on its way. */
  'unready',
  /** Not retried without a person. */
  'fail',
  /** A person or a policy asked to stop; a run must be confirmed gone first. */
  'stop',
  /** The run is confirmed gone, disks kept. */
  'parked',
  /** A person asked to start. */
  'start',
  /** A person asked to delete. */
  'delete',
  /** Nothing of it is left on any machine. */
  'removed',
] as const;
export type StateEvent = (typeof stateEvents)[number];

const table: Record<State, Partial<Record<StateEvent, State>>> = {
  pending: {
    queue: 'queued',
    place: 'provisioning',
    fail: 'failed',
    stop: 'stopping',
    start: 'pending',
    delete: 'deleting',
  },
  queued: {
    queue: 'queued',
    place: 'provisioning',
    fail: 'failed',
    stop: 'stopping',
    start: 'queued',
    delete: 'deleting',
  },
  provisioning: {
    ready: 'running',
    replace: 'pending',
    fail: 'failed',
    stop: 'stopping',
    start: 'provisioning',
    delete: 'deleting',
  },
  running: {
    unready: 'provisioning',
    replace: 'pending',
    fail: 'failed',
    stop: 'stopping',
    start: 'running',
    delete: 'deleting',
  },
  // A start while stopping changes the intent only: the run must be proven gone before a new one.
  stopping: { parked: 'stopped', stop: 'stopping', start: 'stopping', delete: 'deleting' },
  stopped: { start: 'pending', stop: 'stopped', delete: 'deleting' },
  failed: { start: 'pending', stop: 'stopped', delete: 'deleting' },
  deleting: { removed: 'deleted', stop: 'deleting', delete: 'deleting' },
  deleted: {},
};

/** The state that `event` leads to, or null where the pair is refused. */
export function nextState(state: State, event: StateEvent): State | null {
  return table[state][event] ?? null;
}

/** States whose time is metered by usage accounting. */
export function isMetered(state: State): boolean {
  return state === 'running';
}

/** States that end a wait: nothing more happens without a person. */
export function isSettled(state: State): boolean {
  return state === 'running' || state === 'stopped' || state === 'failed' || state === 'deleted';
}
