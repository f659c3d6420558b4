/**
 * Why nothing more is to come of a request, told to whoever works on it.
 *
 * Invariants: the first reason stays; each listener hears once, in the turn in which it is told; a
 * signal is made only for those that take one, for it costs more than all the rest.
 */
import { type Refusal, refusals } from './errors.ts';

/**
 * client_*: it went, or takes nothing; too_long: its time is over; key_revoked, endpoint_stopped,
 * endpoint_gone: what it rested on ended meanwhile.
 */
export const stopReasons = [
  'client_left',
  'client_stalled',
  'too_long',
  'shutting_down',
  'key_revoked',
  'endpoint_stopped',
  'endpoint_gone',
] as const;
export type StopReason = (typeof stopReasons)[number];

export type Stop = {
  /** Null until then. */
  reason(): StopReason | null;
  now(reason: StopReason): void;
  /** Calls `told` then, or soon where it is so already. Returns the undoing. */
  on(told: () => void): () => void;
  signal(): AbortSignal;
};

export function createStop(): Stop {
  const listeners = new Set<() => void>();
  let why: StopReason | null = null;
  let controller: AbortController | null = null;
  return {
    reason: () => why,
    now(reason) {
      if (why !== null) return;
      why = reason;
      for (const told of [...listeners]) if (listeners.delete(told)) told();
      controller?.abort(reason);
    },
    on(told) {
      listeners.add(told);
      const undo = () => void listeners.delete(told);
      // Whoever asks late has what this returns before it hears.
      if (why !== null) queueMicrotask(() => listeners.delete(told) && told());
      return undo;
    },
    signal() {
      if (controller === null) {
        controller = new AbortController();
        if (why !== null) controller.abort(why);
      }
      return controller.signal;
    },
  };
}

/** What the client is told: where it was stopped, the reason of that in place of any other. */
export function toldOf(stop: Stop, refusal: Refusal): Refusal {
  const reason = stop.reason();
  return reason === null ? refusal : refusalOfStop(reason);
}

function refusalOfStop(reason: StopReason): Refusal {
  switch (reason) {
    case 'client_left':
      return refusals.clientLeft;
    case 'client_stalled':
      return refusals.clientStalled;
    case 'too_long':
      return refusals.tooLong;
    case 'shutting_down':
      return refusals.shuttingDown;
    case 'key_revoked':
      return refusals.invalidKey;
    case 'endpoint_stopped':
      return refusals.endpointStopped;
    case 'endpoint_gone':
      return refusals.endpointGone;
  }
}

/** Is nobody left to read what went wrong? */
export function isClientGone(reason: StopReason | null): boolean {
  return reason === 'client_left' || reason === 'client_stalled';
}
