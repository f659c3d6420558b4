/**
 * The limits of keys, users and models: requests and tokens in any minute, requests at a time.
 *
 * Invariants: a request is admitted by all of its limits or counted by none; tokens are reserved
 * when it is admitted and replaced by what it used when it ends, so that many at once cannot exceed
 * what each would be refused; a lease ends once, whoever ends it how often; limits are told with
 * each request, so a changed one holds for the next; what counts no more is forgotten.
 */
import { limits as house } from '../../contract/limits.ts';
import type { RequestUse } from '../../contract/request-limits.ts';
import type { RequestLimits } from '../../core/request-limits.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Asked, Lease, Limiter } from '../limiter.ts';
import { type Blocked, limitHeaders, refusalOfLimit } from './limit-answers.ts';
import {
  type CountedKind,
  createTally,
  isIdle,
  judge,
  type Part,
  type Tally,
  useOf,
} from './tally.ts';

export type CountingLimiter = Limiter & {
  /** What a key has used, or a user or model of those that are limited. */
  useOf(kind: CountedKind, id: string): RequestUse;
  /** How many keys, users and models are remembered now. */
  remembered(): number;
};

const least_sweep = 256;

export function createLimiter(clock: Pick<Clock, 'monotonic'>): CountingLimiter {
  const tallies = new Map<string, Tally>();
  let sweep_at = least_sweep;

  function tallyOf(kind: CountedKind, id: string, now_ms: number): Tally {
    const known = tallies.get(`${kind} ${id}`);
    if (known !== undefined) return known;
    if (tallies.size >= sweep_at) {
      for (const [name, tally] of tallies) if (isIdle(tally, now_ms)) tallies.delete(name);
      sweep_at = Math.max(least_sweep, tallies.size * 2);
    }
    const made = createTally();
    tallies.set(`${kind} ${id}`, made);
    return made;
  }

  function partsOf({ key, endpoint }: Asked, now_ms: number): Part[] {
    const part = (kind: CountedKind, id: string, name: string, limits: RequestLimits): Part => ({
      ...{ kind, name, limits, tally: tallyOf(kind, id, now_ms) },
    });
    const { user_id, user_limits } = key;
    const { workload_id, name, limits } = endpoint;
    return [
      part('key', key.id, '', key.limits),
      ...(isLimited(user_limits) ? [part('user', user_id, '', user_limits)] : []),
      ...(isLimited(limits) ? [part('model', workload_id, name, limits)] : []),
    ];
  }

  return {
    admit(asked) {
      const now_ms = clock.monotonic();
      const parts = partsOf(asked, now_ms);
      const tokens = reservationOf(asked, parts);
      const blocked = parts.flatMap((part) =>
        judge(part.tally, part.limits, tokens, now_ms).map((over) => ({ ...over, part })),
      );
      const [worst] = blocked.sort(byWait);
      if (worst !== undefined) {
        return { ok: false, refusal: refusalOfLimit(worst, tokens, parts, now_ms) };
      }
      const lease = begin(parts, tokens, clock);
      return { ok: true, lease, headers: limitHeaders(parts, now_ms) };
    },
    useOf(kind, id) {
      const tally = tallies.get(`${kind} ${id}`);
      if (tally === undefined) return { requests: 0, tokens: 0, concurrency: 0 };
      return useOf(tally, clock.monotonic());
    },
    remembered: () => tallies.size,
  };
}

function isLimited({ rpm, tpm, concurrency }: RequestLimits): boolean {
  return rpm !== null || tpm !== null || concurrency !== null;
}

/**
 * The tokens that a request may use. One that does not say how long its answer may be reserves
 * what answers usually need, or what its limits have room for at all.
 */
function reservationOf({ prompt_tokens, max_tokens }: Asked, parts: Part[]): number {
  if (max_tokens !== null) return prompt_tokens + max_tokens;
  const usual = prompt_tokens + house.reserved_answer_tokens;
  const least = Math.min(...parts.map(({ limits }) => limits.tpm ?? Number.POSITIVE_INFINITY));
  return Math.max(prompt_tokens, Math.min(usual, least));
}

/** What can never fit first, then what has to wait longest: when that fits, all the others do. */
function byWait(a: Blocked, b: Blocked): number {
  const wait = ({ wait_ms }: Blocked) => wait_ms ?? Number.POSITIVE_INFINITY;
  return wait(a) === wait(b) ? 0 : wait(b) - wait(a);
}

function begin(parts: Part[], tokens: number, clock: Pick<Clock, 'monotonic'>): Lease {
  const began_ms = clock.monotonic();
  for (const { tally } of parts) {
    tally.requests.add(began_ms, 1);
    tally.open += 1;
    tally.reserved += tokens;
  }
  let is_settled = false;
  let is_over = false;
  const settle = (used: number) => {
    if (is_settled) return;
    is_settled = true;
    const now_ms = clock.monotonic();
    for (const { tally } of parts) {
      tally.reserved -= tokens;
      tally.tokens.add(now_ms, used);
    }
  };
  return {
    settle({ prompt_tokens, completion_tokens }) {
      if (!is_over) settle(prompt_tokens + completion_tokens);
    },
    end() {
      if (is_over) return;
      is_over = true;
      settle(0);
      const took_ms = clock.monotonic() - began_ms;
      for (const { tally } of parts) {
        tally.open -= 1;
        tally.pace.took(took_ms);
      }
    },
  };
}
