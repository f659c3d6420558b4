/**
 * The activity log of a control plane, put together: notes of what had no effect, sealer, anchors;
 * and what the API tells it of each request.
 *
 * Invariants: a request of somebody known is in the log: with its effect (its own transaction), as
 * a read, or as a refusal; nothing is recorded of who is not known. See ADR-0031.
 */
import type { Context } from 'hono';
import type { EinsoraError } from '../contract/errors.ts';
import { type RouteName, routes } from '../contract/routes.ts';
import { hideTokens } from '../core/token.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { Random } from '../lib/random.ts';
import { plainText } from '../lib/text.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import { actionOf } from './action.ts';
import { type ActivityNotes, createActivityNotes } from './activity-notes.ts';
import { type Anchors, openAnchors } from './anchors.ts';
import type { ApiEnv } from './api.ts';
import type { ApiDeps } from './api-deps.ts';
import { createSealer, type Sealer, startSealer } from './sealer.ts';

export type ActivityLog = {
  notes: ActivityNotes;
  anchors: Anchors;
  sealer: Sealer;
  /** Seals each second until it is stopped. */
  start(): { stop(): Promise<void> };
};

export function openActivityLog(deps: {
  store: EinsoraStore;
  clock: Clock;
  random: Random;
  log: Log;
  data_dir: string;
  store_uuid: string;
}): ActivityLog {
  const { store, clock, random, log } = deps;
  const notes = createActivityNotes({ clock, log });
  const anchors = openAnchors(deps);
  const sealer = createSealer({ store, clock, random, notes, anchors });
  return { notes, anchors, sealer, start: () => startSealer({ sealer, notes, clock, log }) };
}

type Deps = Pick<ApiDeps, 'clock' | 'random' | 'activity'>;

/** Of a request that was answered: notes it where it only read. */
export function noteAnswer(deps: Deps, c: Context<ApiEnv>): void {
  if (c.get('principal') === undefined || !isReading(c.get('route'))) return;
  deps.activity.notes.read(actionOf(deps, c), c.get('target'));
}

/** Of a request that was refused: notes it where it is known who asked. */
export function noteRefusal(deps: Deps, c: Context<ApiEnv>, error: EinsoraError): void {
  if (c.get('principal') === undefined || !noted_statuses.has(error.status)) return;
  deps.activity.notes.refused(actionOf(deps, c), c.get('target'), error.code);
}

/** Not allowed, not there, not now: what a person would want to know of later. */
const noted_statuses = new Set([403, 404, 409]);

export function isReading(name: RouteName): boolean {
  const { method, auth }: { method: string; auth: (typeof routes)[RouteName]['auth'] } =
    routes[name];
  return method === 'get' || (auth.who === 'user' && auth.reads === true);
}

const target_chars = 100;

/** What the path of a request names, as the client wrote it but for tokens: `workload:chat`. */
export function targetOf(params: Record<string, string>): string | null {
  const last = Object.entries(params).at(-1);
  if (last === undefined) return null;
  const [noun, value] = last;
  const plain = hideTokens(plainText(value).toWellFormed()).slice(0, target_chars);
  return `${noun.replace(/_id$/, '')}:${plain}`;
}
