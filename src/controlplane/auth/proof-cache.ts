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
export function rememberProofs(store: EinsoraStore): EinsoraStore {
  const known = new Map<string, PrincipalRow>();
  let generation = 0;
  let writing = 0;

  function forget(): void {
    generation += 1;
    known.clear();
  }

  async function transact(name: never, args: never): Promise<never> {
    if (besideProofs.has(name)) return (await store.transact(name, args)) as never;
    writing += 1;
    forget();
    try {
      return (await store.transact(name, args)) as never;
    } finally {
      // Also after one that failed: where that is unknown, it may have happened.
      writing -= 1;
      forget();
    }
  }

  async function find(query: typeof principalOfToken, args: Asked) {
    const key = `${query === principalOfToken ? 'token' : 'session'} ${args.hash}`;
    const row = known.get(key);
    if (row !== undefined && isGood(row, args)) return row;
    const as_of = generation;
    const found = await store.read(query, args);
    if (found !== undefined && writing === 0 && generation === as_of) {
      if (known.size >= kept_limit) known.clear();
      known.set(key, found);
    }
    return found;
  }

  const read = (query: never, args: never): Promise<never> =>
    query === principalOfToken || query === principalOfSession
      ? (find(query, args) as Promise<never>)
      : store.read(query, args);

  return { ...store, transact, read };
}

/** What is not good by what is remembered may be by what is written: the store is asked again. */
function isGood(row: PrincipalRow, { now, idle_before }: Asked): boolean {
  if (row.expires_at !== null && row.expires_at <= now) return false;
  return idle_before === undefined || row.last_used_at > idle_before;
}
