/**
 * Limits on requests, as the gateway asks for them.
 *
 * Invariants: what is admitted holds a lease until `end`, which belongs to the request's socket and
 * is given back however the request ends, once.
 */
import type { Endpoint } from './endpoint.ts';
import type { Refusal } from './errors.ts';
import type { GatewayKey } from './key.ts';
import type { TokenUse } from './request-record.ts';
import type { Waiting } from './stop.ts';

export type Asked = {
  key: Pick<GatewayKey, 'id' | 'user_id' | 'limits' | 'user_limits'>;
  /** The endpoint, with its limits over all who ask it. */
  endpoint: Pick<Endpoint, 'workload_id' | 'name' | 'limits'>;
  /** Estimated tokens of the prompt, and the most that the answer may have (null: not said). */
  prompt_tokens: number;
  max_tokens: number | null;
};

export type Lease = {
  /** What it used: replaces what was reserved. Called once, at any ending, before `end`. */
  settle(use: TokenUse): void;
  end(): void;
};

export type Admitted =
  /** `headers`: x-ratelimit-* for the answer. */
  { ok: true; lease: Lease; headers: Record<string, string> } | { ok: false; refusal: Refusal };

export type Limiter = { admit(asked: Asked): Admitted };

export type Turn = { ok: true; leave(): void } | { ok: false; refusal: Refusal };

/** Waiting for a slot of an endpoint's engines, fair between keys. */
export type Turns = {
  /**
   * The function that gives the turn back, at once where one is free; or why none came: the queue
   * is full, or its deadline passed. Rejects nothing; who is stopped gives the turn up.
   */
  enter(asked: {
    workload_id: string;
    key_id: string;
    /** Requests that may be at work there at once now; asked anew when one is freed. */
    capacity(): number;
    stop: Waiting;
  }): Turn | Promise<Turn>;
  /** Who has a turn and who waits for one, for `gateway top` and the metrics; none with neither. */
  standing(): Standing[];
};

export type Standing = { workload_id: string; key_id: string; at_work: number; waiting: number };

/** Where nobody set any limit. */
export const unlimited: Limiter = {
  admit: () => ({ ok: true, lease: { settle() {}, end() {} }, headers: {} }),
};

/** Where everybody may go to work at once. */
export const no_turns: Turns = {
  enter: () => ({ ok: true, leave() {} }),
  standing: () => [],
};
