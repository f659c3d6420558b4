/**
 * Access sessions that are in use: who holds a cookie of a site, which run it opens, and what is
 * open by it.
 *
 * Invariants: an access session is only as good as the session or token that it comes from, its
 * run and its own eight hours: when one of them ends, all that is open by it is broken off in that
 * turn, and the next request is judged anew from the store; what is kept here is forgotten when it
 * was not used for a while.
 */
import { limits } from '../contract/limits.ts';
import type { RunKey } from '../core/run.ts';
import type { Clock } from '../lib/clock.ts';
import { digest } from '../lib/secret.ts';
import { type AccessRow, findAccess } from '../store/access.ts';
import type { EinsoraStore } from '../store/transactions.ts';

/** One access session whose run runs. */
export type Access = {
  row: AccessRow;
  run: RunKey;
  machine_id: string;
  /** What to break off when it ends. */
  open: Set<() => void>;
  used_at: number;
  is_over: boolean;
};

export type Found =
  /** No cookie, or one that opens nothing any more. */
  | { is: 'nobody' }
  /** Theirs, but its run is not what the workload runs now. */
  | { is: 'waiting'; row: AccessRow; cookie_hash: string }
  | { is: 'open'; access: Access };

export type Proof = {
  proof_id: string;
  user_id: string;
  tenant_id: string;
  expires_at: number | null;
};

export type AccessesDeps = {
  store: EinsoraStore;
  clock: Clock;
  /** Calls `ended` once when the proof ends. Returns the undoing. */
  watchProof(proof: Proof, ended: () => void): () => void;
  /** Calls `ended` once when the run is not its workload's running one. Returns the undoing. */
  watchRun(run: RunKey, ended: () => void): () => void;
};

export type Accesses = {
  find(cookies: readonly string[], host: string): Promise<Found>;
  close(): void;
};

const idle_ms = 60_000;
/** A page of the site may add cookies of our name; more than so many are not looked at. */
const cookies_looked_at = 8;
const cookie_form = /^[A-Za-z0-9_-]{43}$/;

type Kept = { access: Access; host: string; end: () => void };

export function createAccesses(deps: AccessesDeps): Accesses {
  const { store, clock } = deps;
  const kept = createKept(deps);

  const look = (hash: string, host: string) => {
    const now = clock.now();
    const idle_before = now - limits.session_idle_ms;
    return store.read(findAccess, { hash, host, now, idle_before });
  };

  async function findOne(hash: string, host: string): Promise<Found> {
    const row = await look(hash, host);
    if (row === undefined) return { is: 'nobody' };
    const at = placeOf(row);
    if (at === null) return { is: 'waiting', row, cookie_hash: hash };
    const already = kept.get(hash, host);
    if (already !== null) return { is: 'open', access: already };
    const access = kept.add(hash, host, row, at);
    // Whatever ended between the look and the watch was told to nobody here.
    const again = await look(hash, host);
    if (again !== undefined && placeOf(again) !== null && !access.is_over) {
      return { is: 'open', access };
    }
    kept.end(hash);
    if (again === undefined) return { is: 'nobody' };
    return { is: 'waiting', row: again, cookie_hash: hash };
  }

  return {
    async find(cookies, host) {
      let best: Found = { is: 'nobody' };
      for (const cookie of cookies.slice(0, cookies_looked_at)) {
        if (!cookie_form.test(cookie)) continue;
        const found = await findOne(digest(cookie), host);
        if (found.is === 'open') return found;
        if (found.is === 'waiting') best = found;
      }
      return best;
    },
    close: () => kept.close(),
  };
}

type Place = { run: RunKey; machine_id: string };

/** What is in use, by the hash of its cookie, until it ends or was not used for a while. */
function createKept(deps: AccessesDeps) {
  const { clock } = deps;
  const kept = new Map<string, Kept>();
  let cancelSweep = () => {};

  function sweepLater(): void {
    cancelSweep = clock.after(idle_ms, () => {
      const before = clock.monotonic() - idle_ms;
      for (const { access, end } of [...kept.values()]) {
        if (access.open.size === 0 && access.used_at <= before) end();
      }
      if (kept.size > 0) sweepLater();
    });
  }

  return {
    add(hash: string, host: string, row: AccessRow, { run, machine_id }: Place): Access {
      const used_at = clock.monotonic();
      const access: Access = { row, run, machine_id, open: new Set(), is_over: false, used_at };
      const undo: (() => void)[] = [];
      const end = () => {
        if (access.is_over) return;
        access.is_over = true;
        for (const one of undo) one();
        if (kept.get(hash)?.access === access) kept.delete(hash);
        for (const breakOff of [...access.open]) breakOff();
      };
      undo.push(deps.watchProof(row, end), deps.watchRun(run, end));
      kept.set(hash, { access, host, end });
      if (kept.size === 1) sweepLater();
      return access;
    },
    get(hash: string, host: string): Access | null {
      const found = kept.get(hash);
      if (found === undefined || found.host !== host) return null;
      found.access.used_at = clock.monotonic();
      return found.access;
    },
    end: (hash: string) => kept.get(hash)?.end(),
    close(): void {
      cancelSweep();
      for (const { end } of [...kept.values()]) end();
    },
  };
}

/** Where its own run runs; null where that is not what runs now. */
function placeOf(row: AccessRow): Place | null {
  const { workload_id, replica, current_epoch, machine_id, run_epoch } = row;
  if (replica === null || machine_id === null || current_epoch !== run_epoch) return null;
  return { run: { workload_id, replica, run_epoch }, machine_id };
}
