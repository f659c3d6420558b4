/**
 * Why nothing more is to come of a request, told to whoever works on it.
 *
 * Invariants: the first reason stays; each listener hears once, in the turn in which it is told. An
 * AbortSignal would do, and cost more than all the rest.
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
};

/** Who waits for something, as long as it is wanted. */
export type Waiting = Pick<Stop, 'reason' | 'on'>;

export function createStop(): Stop {
  return new Told();
}

/** A class, for each open request has one. */
class Told implements Stop {
  #why: StopReason | null = null;
  /** In the order in which they came. */
  readonly #listeners: (() => void)[] = [];

  reason(): StopReason | null {
    return this.#why;
  }

  now(reason: StopReason): void {
    if (this.#why !== null) return;
    this.#why = reason;
    for (const told of [...this.#listeners]) if (this.#forget(told)) told();
  }

  on(told: () => void): () => void {
    this.#listeners.push(told);
    // Whoever asks late has what this returns before it hears.
    if (this.#why !== null) queueMicrotask(() => this.#forget(told) && told());
    return () => void this.#forget(told);
  }

  /** It was to be told. */
  #forget(told: () => void): boolean {
    const at = this.#listeners.indexOf(told);
    if (at >= 0) this.#listeners.splice(at, 1);
    return at >= 0;
  }
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
