/**
 * Four engines, one killed each second and back after two, under load: nobody loses a request
 * before its answer began, no answer that is not whole looks so, and the records say of each
 * request what its client says.
 *
 * EINSORA_CHAOS_S sets for how many seconds, EINSORA_CHAOS_SEED the moments and kinds.
 */
import assert from 'node:assert/strict';
import { Agent } from 'node:http';
import { test } from 'node:test';
import { createBalancer } from '../../src/gateway/balance/balancer.ts';
import type { RequestRecord } from '../../src/gateway/request-record.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { seededRandom } from '../../src/lib/random.ts';
import { askOnce, type ChaosKind, type Told } from '../lib/chaos-client.ts';
import { good_key, replica, run, smol, startRig } from '../lib/gateway-rig.ts';
import { countOf, type MortalEngine, startMortalEngine } from '../lib/mortal-engine.ts';

const seconds = Number(process.env.EINSORA_CHAOS_S ?? '10');
const seed = Number(process.env.EINSORA_CHAOS_SEED ?? '1');
const engines_count = 4;
const clients = 24;
const unheard_ms = 700;

const random = seededRandom(seed);
const upTo = (most: number) => {
  const [high = 0, low = 0] = random.bytes(2);
  return ((high * 256 + low) * most) / 65_536;
};
const kinds: ChaosKind[] = ['stream', 'stream', 'stream', 'whole', 'whole', 'leaver', 'early'];

/** Engines, which of them the endpoint names, and whom their deaths hit. */
async function startEngines() {
  const hits = new Map<string, number[]>();
  const onHit = (id: string, words: number) => void hits.set(id, [...(hits.get(id) ?? []), words]);
  const start = () => startMortalEngine(systemClock, onHit);
  const engines = await Promise.all(Array.from({ length: engines_count }, start));
  const named = engines.map((_, at) => ({ ...replica, run: { ...run, replica: at } }));
  const listed = new Set(named);
  return { engines, named, listed, hits };
}

/** Kills one each second; each is unheard of for a while, and is back after two, as another run. */
async function kill({ engines, named, listed }: Awaited<ReturnType<typeof startEngines>>) {
  const back: Promise<void>[] = [];
  for (let second = 0; second < seconds; second += 1) {
    await systemClock.sleep(1000);
    const alive = engines.flatMap((engine, at) => (engine.isAlive() ? [at] : []));
    const at = alive[Math.floor(upTo(alive.length))] ?? 0;
    const engine = engines[at] as MortalEngine;
    engine.kill(upTo(2) < 1 ? 'reset' : 'end');
    back.push(
      (async () => {
        await systemClock.sleep(unheard_ms);
        const gone = named[at] as (typeof named)[number];
        listed.delete(gone);
        await systemClock.sleep(2000 - unheard_ms);
        const next = { ...gone, run: { ...gone.run, run_epoch: gone.run.run_epoch + 1 } };
        named[at] = next;
        engine.revive();
        listed.add(next);
      })(),
    );
  }
  await Promise.all(back);
}

test('engines die under load: nothing is lost, nothing is passed off as whole, all is recorded', {
  timeout: (seconds + 60) * 1000,
}, async (t) => {
  const world = await startEngines();
  const records: RequestRecord[] = [];
  const rig = await startRig({
    findEndpoint: async () => smol(...world.listed),
    dial: async ({ replica: at }) => (world.engines[at] as MortalEngine).dial(),
    balancer: createBalancer(seededRandom(seed), systemClock),
    clock: systemClock,
    record: (record) => void records.push(record),
  });
  const agent = new Agent({ keepAlive: true });
  const told: (Told & { id: string; words: number })[] = [];
  let is_over = false;
  const client = async () => {
    while (!is_over) {
      const kind = kinds[Math.floor(upTo(kinds.length))] as ChaosKind;
      // Of an answer that is left enough is to come that it cannot be whole before that is known.
      const least = kind === 'leaver' || kind === 'early' ? 200 : 2;
      const [words, pace_ms] = [least + Math.floor(upTo(20)), 2 + Math.floor(upTo(12))];
      const id = String(told.length) + kind + String(Math.floor(upTo(1e6)));
      const body = { model: 'smol', messages: [], user: id, metadata: { words, pace_ms } };
      const leaves = systemClock.sleep(upTo(12));
      const asked = await askOnce({
        ...{ url: rig.url, key: good_key, agent, kind, body, expected: countOf(words) },
        ...(kind === 'early' ? { leaves } : {}),
      });
      told.push({ ...asked, id, words });
    }
  };
  try {
    const load = Array.from({ length: clients }, client);
    await kill(world);
    is_over = true;
    await Promise.all(load);
    await rig.settled();
    judge(told, records, world.hits);
    t.diagnostic(
      `${summary(told)}; ${records.filter((one) => one.attempts > 1).length} failed over`,
    );
  } finally {
    agent.destroy();
    await rig.close();
    for (const engine of world.engines) await engine.close();
  }
});

function judge(
  told: readonly (Told & { id: string; words: number })[],
  records: readonly RequestRecord[],
  hits: ReadonlyMap<string, number[]>,
): void {
  const broken = told.filter(({ outcome }) => outcome === 'broken');
  assert.deepEqual(broken, [], 'each answer is whole, or said not to be');
  for (const one of told.filter(({ outcome }) => outcome === 'refused')) {
    // Part of an answer was lost, of one that nobody had seen, and again in the second try.
    const lost = (hits.get(one.id) ?? []).filter((words) => words > 0);
    assert.ok(one.kind === 'whole' && lost.length > 1, `lost: ${JSON.stringify({ ...one, lost })}`);
  }
  const of = new Map(records.map((record) => [record.request_id, record]));
  assert.equal(of.size, records.length, 'one record each');
  const known = told.filter(({ request_id }) => request_id !== null);
  for (const one of known) {
    const record = of.get(one.request_id ?? '');
    const place = JSON.stringify({ one, record, hits: hits.get(one.id) });
    assert.ok(record !== undefined, place);
    of.delete(record.request_id);
    const was_hit = record.outcome === 'cut' && hits.has(one.id);
    // Who leaves in the very moment in which the engine dies is told nothing more.
    if (one.outcome === 'client_left' && was_hit) continue;
    assert.equal(record.outcome, one.outcome, place);
    assert.equal(record.code, one.outcome === 'client_left' ? 'client_left' : one.code, place);
    if (one.outcome === 'answered') {
      const { completion_tokens, is_estimated } = record.use;
      assert.deepEqual([completion_tokens, is_estimated], [one.words, false], place);
    }
    if (one.outcome === 'cut') {
      const got = one.text.trim().split(' ').length;
      assert.ok(
        record.use.is_estimated && Math.abs(record.use.completion_tokens - got) <= 1,
        place,
      );
    }
  }
  // What is left are those that went before they had any answer, as far as they had asked at all.
  assert.ok(of.size <= told.length - known.length);
  for (const record of of.values()) assert.equal(record.outcome, 'client_left');
}

function summary(told: readonly Told[]): string {
  const counts = Object.entries(Object.groupBy(told, ({ outcome }) => outcome));
  return counts.map(([outcome, all]) => `${all?.length} ${outcome}`).join(', ');
}
