/**
 * The order in which what waits is decided: whoever used the least comes first, then age.
 *
 * Use is metered seconds times the weight of their class, and counts half after seven days. Between
 * tenants first, then between the users of a tenant. Each workload that stands before counts as an
 * hour of what it asks, so equal users take turns, and nobody's thousand come before another's one.
 *
 * Invariants: the order is total and the same for the same input, however that was sorted; of one
 * user what is older comes first; asking for more workloads never brings an earlier one forward.
 */
import { createHeap, type Heap } from './heap.ts';

export const half_life_ms = 7 * 24 * 3600_000;
/** What one that stands before counts, in seconds of what it asks. */
const turn_s = 3600;

export type Waiting = {
  id: string;
  tenant_id: string;
  creator_id: string;
  created_at: number;
  /** Of what it asks: weighted seconds a second. */
  weight: number;
};

/** What somebody used: weighted seconds, each already counted by its age. */
export type Use = { tenant_id: string; user_id: string; weighted_s: number };

/** What `weighted_s` of so long ago counts now. */
export function decayed(weighted_s: number, age_ms: number): number {
  return weighted_s * 0.5 ** (Math.max(0, age_ms) / half_life_ms);
}

/** The order, one after the other, so that whoever walks it can rest between. */
export function* fairOrder<W extends Waiting>(
  waiting: Iterable<W>,
  uses: readonly Use[],
): Generator<W> {
  const tenants = createHeap<Line<W>>(comesFirst);
  for (const tenant of linesOf(waiting, uses)) tenants.push(tenant);
  for (let line = tenants.pop(); line !== undefined; line = tenants.pop()) {
    const user = line.users.pop();
    const next = user?.own[user.next];
    if (user === undefined || next === undefined) continue;
    yield next;
    user.next += 1;
    user.used_s += next.weight * turn_s;
    line.used_s += next.weight * turn_s;
    const after = user.own[user.next];
    if (after !== undefined) {
      user.head = after;
      line.users.push(user);
    }
    const head = line.users.peek()?.head;
    if (head === undefined) continue;
    line.head = head;
    tenants.push(line);
  }
}

type Standing = { used_s: number; head: Waiting };
type UserLine<W> = Standing & { own: W[]; next: number };
type Line<W> = Standing & { users: Heap<UserLine<W>> };

/** One line for each tenant, in it one for each user, each with its own, oldest first. */
function linesOf<W extends Waiting>(waiting: Iterable<W>, uses: readonly Use[]): Line<W>[] {
  const tenants = new Map<string, Map<string, W[]>>();
  for (const one of waiting) {
    let users = tenants.get(one.tenant_id);
    if (users === undefined) {
      users = new Map();
      tenants.set(one.tenant_id, users);
    }
    const own = users.get(one.creator_id);
    if (own === undefined) users.set(one.creator_id, [one]);
    else own.push(one);
  }
  const lines: Line<W>[] = [];
  for (const [tenant_id, users] of tenants) {
    const lineUsers = createHeap<UserLine<W>>(comesFirst);
    for (const [user_id, own] of users) {
      sortByAge(own);
      const [head] = own;
      if (head === undefined) continue;
      const used = (use: Use) => use.tenant_id === tenant_id && use.user_id === user_id;
      lineUsers.push({ used_s: sum(uses.filter(used)), head, own, next: 0 });
    }
    const head = lineUsers.peek()?.head;
    if (head === undefined) continue;
    const used_s = sum(uses.filter((use) => use.tenant_id === tenant_id));
    lines.push({ used_s, head, users: lineUsers });
  }
  return lines;
}

/** The store gives them by age already: then this only looks. */
function sortByAge(own: Waiting[]): void {
  for (let at = 1; at < own.length; at += 1) {
    if (isOlder(own[at] as Waiting, own[at - 1] as Waiting)) {
      own.sort((a, b) => (isOlder(a, b) ? -1 : 1));
      return;
    }
  }
}

function sum(uses: readonly Use[]): number {
  return uses.reduce((total, use) => total + use.weighted_s, 0);
}

function comesFirst(a: Standing, b: Standing): boolean {
  return a.used_s === b.used_s ? isOlder(a.head, b.head) : a.used_s < b.used_s;
}

function isOlder(a: Waiting, b: Waiting): boolean {
  return a.created_at === b.created_at ? a.id < b.id : a.created_at < b.created_at;
}
