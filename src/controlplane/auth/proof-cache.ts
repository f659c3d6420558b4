/**
 * Remembers what the store said of a session or token, so that a busy client's proof is not looked
 * up for each of its requests.
 *
 * Invariants: a proof is answered from memory only while nothing was written, or is being written,
 * that may concern proofs, users or tenants since it was read: every transaction does but the few
 * named here, so a new one is on the safe side. Whoever was told that a revocation happened finds
 * it in force. Age and idleness are judged at each look. Only for a store that nobody else writes
 * (ADR-0038).
 */
import { type PrincipalRow, principalOfSession, principalOfToken } from '../../store/accounts.ts';
import type { EinsoraStore } from '../../store/transactions.ts';
import { createMemory, watchWrites } from '../write-watch.ts';

/**
 * What is written all the time, and never a proof (last uses apart), a user or a tenant: on the
 * tests' rig such a transaction fails that does.
 */
export const besideProofs: ReadonlySet<string> = new Set([
  'applyReport',
  'launchWorkload',
  'placeWorkload',
  'proveRunning',
  'queueWorkloads',
  'recordNotes',
  'recordRequests',
  'sealActivity',
  'touchSession',
  'touchToken',
]);
const kept_limit = 1000;

type Asked = { hash: string; now: number; idle_before?: number };

/** The store, through which all writes must go. */
export function rememberProofs(opened: EinsoraStore): EinsoraStore {
  const { store, asOf } = watchWrites(opened, besideProofs);
  const known = createMemory<PrincipalRow | undefined>(asOf, kept_limit);

  const find = async (query: typeof principalOfToken, args: Asked) =>
    known.get(
      `${query === principalOfToken ? 'token' : 'session'} ${args.hash}`,
      () => store.read(query, args),
      (row) => row !== undefined && isGood(row, args),
    );

  const read = (query: never, args: never): Promise<never> =>
    query === principalOfToken || query === principalOfSession
      ? (find(query, args) as Promise<never>)
      : store.read(query, args);

  return { ...store, read };
}

/** What is not good by what is remembered may be by what is written: the store is asked again. */
function isGood(row: PrincipalRow, { now, idle_before }: Asked): boolean {
  if (row.expires_at !== null && row.expires_at <= now) return false;
  return idle_before === undefined || row.last_used_at > idle_before;
}
