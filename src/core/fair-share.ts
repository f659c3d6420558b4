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

/** Everybody's lines, filled one by one and then walked: whoever does either can rest between. */
export type FairLines<W> = { add(one: W): void; order(): Iterable<W> };

export function createFairLines<W extends Waiting>(uses: readonly Use[]): FairLines<W> {
  const tenants = new Map<string, Map<string, W[]>>();
  return {
    add(one) {
      let users = tenants.get(one.tenant_id);
      if (users === undefined) {
        users = new Map();
        tenants.set(one.tenant_id, users);
      }
      const own = users.get(one.creator_id);
      if (own === undefined) users.set(one.creator_id, [one]);
      else own.push(one);
    },
    order: () => orderOf(linesOf(tenants, uses)),
  };
}

/** The order of all at once. */
export function* fairOrder<W extends Waiting>(
  waiting: Iterable<W>,
  uses: readonly Use[],
): Generator<W> {
  const lines = createFairLines<W>(uses);
  for (const one of waiting) lines.add(one);
  yield* lines.order();
}

/** Without a generator: to go on in one costs as much as all the rest. */
function orderOf<W extends Waiting>(lines: Line<W>[]): Iterable<W> {
  const tenants = createHeap<Line<W>>(comesFirst);
  for (const tenant of lines) tenants.push(tenant);
  const next = (): IteratorResult<W, undefined> => {
    const line = tenants.peek();
    const user = line?.users.peek();
    const first = user?.own[user.next];
    if (line === undefined || user === undefined || first === undefined) {
      return { done: true, value: undefined };
    }
    goOn(line, user, first);
    if (line.users.size === 0) tenants.pop();
    else tenants.settle();
    return { done: false, value: first };
  };
  return { [Symbol.iterator]: () => ({ next }) };
}

/** The first of a user had its turn: the next of theirs, and of their tenant, stands there now. */
function goOn<W extends Waiting>(line: Line<W>, user: UserLine<W>, first: W): void {
  user.next += 1;
  user.used_s += first.weight * turn_s;
  line.used_s += first.weight * turn_s;
  const after = user.own[user.next];
  if (after === undefined) line.users.pop();
  else {
    user.head = after;
    line.users.settle();
  }
  const head = line.users.peek()?.head;
  if (head !== undefined) line.head = head;
}

type Standing = { used_s: number; head: Waiting };
type UserLine<W> = Standing & { own: W[]; next: number };
type Line<W> = Standing & { users: Heap<UserLine<W>> };

/** One line for each tenant, in it one for each user, each with its own, oldest first. */
function linesOf<W extends Waiting>(
  tenants: ReadonlyMap<string, ReadonlyMap<string, W[]>>,
  uses: readonly Use[],
): Line<W>[] {
  const used = sumsOf(uses);
  const lines: Line<W>[] = [];
  for (const [tenant_id, users] of tenants) {
    const lineUsers = createHeap<UserLine<W>>(comesFirst);
    for (const [user_id, own] of users) {
      sortByAge(own);
      const [head] = own;
      if (head === undefined) continue;
      const used_s = used.get(`${tenant_id} ${user_id}`) ?? 0;
      lineUsers.push({ used_s, head, own, next: 0 });
    }
    const head = lineUsers.peek()?.head;
    if (head === undefined) continue;
    lines.push({ used_s: used.get(tenant_id) ?? 0, head, users: lineUsers });
  }
  return lines;
}

/** Of each tenant, and of each of its users. */
function sumsOf(uses: readonly Use[]): Map<string, number> {
  const sums = new Map<string, number>();
  for (const { tenant_id, user_id, weighted_s } of uses) {
    for (const key of [tenant_id, `${tenant_id} ${user_id}`]) {
      sums.set(key, (sums.get(key) ?? 0) + weighted_s);
    }
  }
  return sums;
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

function comesFirst(a: Standing, b: Standing): boolean {
  return a.used_s === b.used_s ? isOlder(a.head, b.head) : a.used_s < b.used_s;
}

function isOlder(a: Waiting, b: Waiting): boolean {
  return a.created_at === b.created_at ? a.id < b.id : a.created_at < b.created_at;
}
