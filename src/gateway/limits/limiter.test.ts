/**
 * Limits of requests, tokens and requests at a time: exact, told exactly, and never passed.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits as house } from '../../contract/limits.ts';
import { no_request_limits, type RequestLimits } from '../../core/request-limits.ts';
import { fraction, seededRandom } from '../../lib/random.ts';
import type { Refusal } from '../errors.ts';
import type { Admitted, Asked, Lease } from '../limiter.ts';
import { createLimiter } from './limiter.ts';

type Change = Partial<Omit<Asked, 'key' | 'endpoint'>> & {
  key_id?: string;
  user_id?: string;
  workload_id?: string;
  key?: Partial<RequestLimits>;
  user?: Partial<RequestLimits>;
  model?: Partial<RequestLimits>;
};

function asked({ key_id = 'k1', user_id = 'u1', workload_id = 'w1', ...change }: Change): Asked {
  const { key = {}, user = {}, model = {}, prompt_tokens = 10, max_tokens = 10 } = change;
  const none = no_request_limits;
  return {
    key: {
      ...{ id: key_id, user_id },
      ...{ limits: { ...none, ...key }, user_limits: { ...none, ...user } },
    },
    endpoint: { workload_id, name: 'smol', limits: { ...none, ...model } },
    ...{ prompt_tokens, max_tokens },
  };
}

function openLimiter() {
  const clock = { now_ms: 5, monotonic: () => clock.now_ms };
  const limiter = createLimiter(clock);
  const admit = (change: Change) => limiter.admit(asked(change));
  return { clock, limiter, admit };
}

function leaseOf(admitted: Admitted): Lease {
  assert.ok(admitted.ok, JSON.stringify(admitted));
  return admitted.lease;
}

function refusalOf(admitted: Admitted): Refusal & { wait_ms: number } {
  assert.ok(!admitted.ok);
  const { refusal } = admitted;
  return { ...refusal, wait_ms: Number(refusal.headers?.['Retry-After-Ms']) };
}

const use = (prompt_tokens: number, completion_tokens: number) => ({
  ...{ prompt_tokens, completion_tokens, cached_tokens: 0, is_estimated: false },
});

test('of a minute’s requests the last fits, one more waits exactly until it does', () => {
  const { clock, admit } = openLimiter();
  const one = () => admit({ key: { rpm: 3 } });
  for (const at of [0, 10_000, 20_000]) {
    clock.now_ms = at;
    leaseOf(one()).end();
  }
  clock.now_ms = 30_250;
  const { status, code, type, retry_after_s, wait_ms, message, headers } = refusalOf(one());
  assert.deepEqual([status, code, type], [429, 'rate_limit_exceeded', 'requests']);
  assert.deepEqual([wait_ms, retry_after_s], [29_750, 30]);
  assert.equal(message, 'The limit of this key is 3 requests a minute. Try again in 29.75s.');
  assert.equal(headers?.['x-ratelimit-remaining-requests'], '0');
  clock.now_ms += wait_ms - 1;
  assert.equal(refusalOf(one()).wait_ms, 1);
  clock.now_ms += 1;
  leaseOf(one());
  assert.equal(refusalOf(one()).wait_ms, 10_000, 'no storm: each waits for its own');
});

test('the headers are OpenAI’s, of the tightest limit', () => {
  const { clock, admit } = openLimiter();
  const limits = { key: { rpm: 60, tpm: 900 }, model: { rpm: 3 } };
  const first = admit(limits);
  assert.deepEqual(first.ok && first.headers, {
    'x-ratelimit-limit-requests': '3',
    'x-ratelimit-remaining-requests': '2',
    'x-ratelimit-reset-requests': '1m0s',
    'x-ratelimit-limit-tokens': '900',
    'x-ratelimit-remaining-tokens': '880',
    'x-ratelimit-reset-tokens': '1m0s',
  });
  leaseOf(first).settle(use(10, 2));
  clock.now_ms += 51_360;
  const second = admit(limits);
  assert.equal(second.ok && second.headers['x-ratelimit-remaining-tokens'], '868');
  leaseOf(second).end();
  const plain = admit({});
  assert.deepEqual(plain.ok && plain.headers, {});
});

test('tokens are reserved, and what was not used is given back', () => {
  const { clock, admit } = openLimiter();
  const one = () => admit({ prompt_tokens: 100, max_tokens: 400, key: { tpm: 1000 } });
  const first = leaseOf(one());
  leaseOf(one());
  const full = refusalOf(one());
  assert.deepEqual([full.status, full.type, full.code], [429, 'tokens', 'rate_limit_exceeded']);
  first.settle(use(100, 100));
  first.end();
  assert.equal(refusalOf(one()).wait_ms, 60_000, 'the 200 that were used, in a minute');
  clock.now_ms += 60_000;
  leaseOf(one());
});

test('what goes on for longer than a minute keeps what it reserved', () => {
  const { clock, admit } = openLimiter();
  const one = (max_tokens: number) => admit({ max_tokens, key: { tpm: 100 } });
  const long = leaseOf(one(60));
  clock.now_ms += 300_000;
  assert.equal(refusalOf(one(60)).type, 'tokens');
  leaseOf(one(20)).end();
  long.settle(use(10, 60));
  assert.equal(refusalOf(one(60)).wait_ms, 60_000);
});

test('a request that can never fit is told so, and is no 429', () => {
  const { admit } = openLimiter();
  const limits = { key: { rpm: 1, tpm: 1000 }, user: { tpm: 50_000 } };
  const { status, code, param, message } = refusalOf(admit({ max_tokens: 991, ...limits }));
  assert.deepEqual([status, code, param], [400, 'tokens_over_limit', 'max_tokens']);
  assert.match(message, /1000 tokens a minute, and this request may use 1001/);
  leaseOf(admit({ max_tokens: 990, ...limits }));
  assert.equal(refusalOf(admit({ max_tokens: 991, ...limits })).status, 400, 'however full it is');
});

test('a request that does not say how long its answer may be reserves what is usual', () => {
  const { limiter, admit } = openLimiter();
  const reserved = () => limiter.useOf('key', 'k1').tokens;
  const usual = leaseOf(admit({ max_tokens: null, key: { tpm: 20_000 } }));
  assert.equal(reserved(), 10 + house.reserved_answer_tokens);
  usual.settle(use(10, 5000));
  usual.end();
  assert.equal(reserved(), 5010, 'what it used more counts too');
  const less = openLimiter();
  leaseOf(less.admit({ max_tokens: null, key: { tpm: 300 } }));
  assert.equal(less.limiter.useOf('key', 'k1').tokens, 300, 'never more than ever fits');
});

test('of 64 at once four are at work; one that ends makes room for one, once', () => {
  const { admit, limiter } = openLimiter();
  const one = () => admit({ key: { concurrency: 4 } });
  const all = Array.from({ length: 64 }, one);
  const leases = all.flatMap((one) => (one.ok ? [one.lease] : []));
  assert.equal(leases.length, 4);
  const refused = all.filter((one) => !one.ok).map(refusalOf);
  assert.equal(refused.length, 60);
  for (const { status, type, retry_after_s } of refused) {
    assert.deepEqual([status, type, retry_after_s], [429, 'concurrency', 1]);
  }
  leases[0]?.end();
  leases[0]?.end();
  leaseOf(one());
  refusalOf(one());
  assert.equal(limiter.useOf('key', 'k1').concurrency, 4);
});

test('a user’s limits hold over all keys, a model’s over all who ask', () => {
  const { admit } = openLimiter();
  const user = { rpm: 2 };
  leaseOf(admit({ key_id: 'a', user })).end();
  leaseOf(admit({ key_id: 'b', user })).end();
  assert.match(refusalOf(admit({ key_id: 'c', user })).message, /this key's user over all keys/);
  leaseOf(admit({ key_id: 'd', user_id: 'u2', user }));
  const model = { concurrency: 1 };
  leaseOf(admit({ key_id: 'e', user_id: 'u3', model }));
  const taken = refusalOf(admit({ key_id: 'f', user_id: 'u4', model }));
  assert.match(taken.message, /the model `smol` over all who ask it is 1 requests at a time/);
  leaseOf(admit({ key_id: 'f', user_id: 'u4', model, workload_id: 'w2' }));
});

test('of several limits the longest wait is told, and nothing is counted by any', () => {
  const { clock, admit, limiter } = openLimiter();
  leaseOf(admit({ key: { rpm: 5 }, user: { rpm: 1 } })).end();
  clock.now_ms += 20_000;
  for (let count = 0; count < 4; count += 1) leaseOf(admit({ key: { rpm: 5 } })).end();
  clock.now_ms += 10_000;
  const both = { key: { rpm: 4 }, user: { rpm: 1 } };
  assert.equal(refusalOf(admit(both)).wait_ms, 50_000);
  assert.equal(limiter.useOf('key', 'k1').requests, 5);
  clock.now_ms += 50_000;
  leaseOf(admit(both));
});

test('a changed limit holds for the next request', () => {
  const { admit } = openLimiter();
  leaseOf(admit({ key: { rpm: 2 } }));
  refusalOf(admit({ key: { rpm: 1 } }));
  leaseOf(admit({ key: { rpm: 2 } }));
  leaseOf(admit({}));
});

test('whatever happens, no minute sees more than the limits, nothing leaks, nothing is negative', () => {
  for (let seed = 1; seed <= 8; seed += 1) playThrough(seed);
});

type Open = { lease: Lease; at: number; reserved: number; key_id: string };
const story = { steps: 3000, keys: 3, key: { rpm: 20, tpm: 2000, concurrency: 3 } };

function playThrough(seed: number): void {
  const random = seededRandom(seed);
  const below = (most: number) => Math.floor(fraction(random) * most);
  const { clock, admit, limiter } = openLimiter();
  const user = { rpm: 45, tpm: 3000, concurrency: 7 };
  const begun: [string, number][] = [];
  const used: [string, number, number][] = [];
  const open: Open[] = [];
  const end = ({ lease, key_id, reserved }: Open) => {
    if (below(5) > 0) {
      const tokens = below(reserved + 1);
      lease.settle(use(0, tokens));
      used.push([key_id, clock.now_ms, tokens]);
    }
    for (let times = below(3); times >= 0; times -= 1) lease.end();
  };
  for (let step = 0; step < story.steps; step += 1) {
    const what = below(10);
    if (what < 3) clock.now_ms += [1, 40, 700, 15_000][below(4)] ?? 0;
    else if (what < 5) open.splice(below(open.length), 1).forEach(end);
    else {
      const key_id = `k${below(story.keys)}`;
      const [prompt_tokens, max_tokens] = [below(100), below(400)];
      const admitted = admit({ key_id, key: story.key, user, prompt_tokens, max_tokens });
      if (admitted.ok) {
        const reserved = prompt_tokens + max_tokens;
        open.push({ lease: admitted.lease, at: clock.now_ms, reserved, key_id });
        begun.push([key_id, clock.now_ms]);
        neverNegative(admitted.headers);
      } else neverNegative(admitted.refusal.headers ?? {});
    }
    const of_key = Map.groupBy(open, ({ key_id }) => key_id);
    for (const held of of_key.values()) assert.ok(held.length <= story.key.concurrency);
    assert.ok(open.length <= user.concurrency);
  }
  for (const [limits, of] of [
    [user, () => true],
    ...Array.from({ length: story.keys }, (_, n) => [story.key, (id: string) => id === `k${n}`]),
  ] as [typeof user, (id: string) => boolean][]) {
    within(
      begun.filter(([id]) => of(id)).map(([, at]) => [at, 1]),
      limits.rpm,
    );
    within(
      used.filter(([id]) => of(id)).map(([, at, tokens]) => [at, tokens]),
      limits.tpm,
    );
  }
  assert.ok(begun.length > 100 && used.length > 100, `seed ${seed} tells something`);
  open.forEach(end);
  clock.now_ms += 60_051;
  for (const id of ['k0', 'k1', 'k2']) {
    assert.deepEqual(limiter.useOf('key', id), { requests: 0, tokens: 0, concurrency: 0 });
  }
  assert.deepEqual(limiter.useOf('user', 'u1'), { requests: 0, tokens: 0, concurrency: 0 });
}

/** Of no minute, wherever it begins, is more counted than the limit. */
function within(amounts: [number, number][], limit: number): void {
  let [first, sum] = [0, 0];
  for (const [at, amount] of amounts) {
    sum += amount;
    for (let one = amounts[first]; one && one[0] <= at - 60_000; one = amounts[first]) {
      sum -= one[1];
      first += 1;
    }
    assert.ok(sum <= limit, `${sum} in the minute before ${at}, of ${limit}`);
  }
}

function neverNegative(headers: Record<string, string>): void {
  for (const [name, value] of Object.entries(headers)) {
    if (name.includes('remaining')) assert.match(value, /^\d+$/, name);
  }
}

test('keys that asked nothing for a minute are forgotten, those that go on are not', () => {
  const { clock, admit, limiter } = openLimiter();
  const held = leaseOf(admit({ key_id: 'held' }));
  for (let round = 0; round < 20; round += 1) {
    for (let key = 0; key < 200; key += 1) leaseOf(admit({ key_id: `${round} ${key}` })).end();
    clock.now_ms += 61_000;
  }
  assert.ok(limiter.remembered() <= 512, String(limiter.remembered()));
  assert.equal(limiter.useOf('key', 'held').concurrency, 1);
  held.end();
});
