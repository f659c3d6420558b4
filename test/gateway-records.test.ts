/**
 * Requests of every ending, at once, down to the store: what it says of each is what its client
 * saw, once, although the store fails now and then.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../src/contract/limits.ts';
import { createJournal } from '../src/gateway/records/journal.ts';
import { rowOfRecord } from '../src/gateway/records/rows.ts';
import { silentLog } from '../src/lib/log.ts';
import { seededRandom } from '../src/lib/random.ts';
import { StoreError } from '../src/store/sql.ts';
import { open, type Rig, readAll, type Sent, startRig } from './lib/gateway-rig.ts';
import { openTestStore, select } from './lib/rig.ts';
import { chatEvent, doneEvent, events, json, manualClock, type Script } from './lib/upstream.ts';

const requests = 400;
const at_once = 25;

const scripts: Record<string, Script> = {
  whole: events(chatEvent('hi'), doneEvent),
  cut: async (reply) => {
    reply.setHeader('Content-Type', 'text/event-stream');
    await new Promise((resolve) => reply.write(chatEvent('so'), resolve));
    reply.destroy();
  },
  blamed: json(400, { error: { message: 'bad', type: 'invalid_request_error' } }),
  failed: json(500, { error: { message: 'bad', type: 'server_error' } }),
  dead: (reply) => void reply.destroy(),
  silent: (_, seen) => seen.gone,
  endless: async (reply, seen) => {
    reply.setHeader('Content-Type', 'text/event-stream');
    reply.write(chatEvent('so'));
    await seen.gone;
  },
};

type Way = { says: string; stream: boolean; ends: string; leaves?: 'early' | 'late' };
const ways: Way[] = [
  { says: 'whole', stream: true, ends: 'answered 200' },
  { says: 'whole', stream: false, ends: 'answered 200' },
  { says: 'cut', stream: true, ends: 'cut 200' },
  { says: 'cut', stream: false, ends: 'refused 502' },
  { says: 'blamed', stream: true, ends: 'refused 400' },
  { says: 'failed', stream: false, ends: 'refused 500' },
  { says: 'dead', stream: true, ends: 'refused 502' },
  { says: 'silent', stream: true, ends: 'client_left null', leaves: 'early' },
  { says: 'silent', stream: false, ends: 'client_left null', leaves: 'early' },
  { says: 'endless', stream: true, ends: 'client_left 200', leaves: 'late' },
];
const others: [Sent, string | null][] = [
  [{ body: '{' }, 'refused 400'],
  [{ body: { model: 'none', messages: [] } }, 'refused 404'],
  [{ headers: { Authorization: 'Bearer none' } }, null],
  [{ method: 'GET', path: '/v1/models', body: '' }, null],
];

/** Resolves with the engine's first sight of a question, by what it says. */
function createSights() {
  const waiting = new Map<string, () => void>();
  return {
    of: (content: string) => new Promise<void>((resolve) => waiting.set(content, resolve)),
    saw: (content: string) => waiting.get(content)?.(),
  };
}

/** One request, and how it ended for its client. */
async function one(rig: Rig, way: Way, content: string, seen: Promise<void>): Promise<string> {
  const messages = [{ role: 'user', content }];
  const sent = open(rig, { body: { model: 'smol', stream: way.stream, messages } });
  if (way.leaves === 'early') {
    await seen;
    sent.leave();
    await sent.catch(() => {});
    return 'client_left null';
  }
  const answer = await sent;
  if (way.leaves === 'late') {
    await new Promise((resolve) => answer.once('data', resolve));
    sent.leave();
    await readAll(answer);
    return 'client_left 200';
  }
  const { status, whole, text } = await readAll(answer);
  if (status !== 200) return `refused ${status}`;
  return whole && (!way.stream || text.includes('[DONE]')) ? 'answered 200' : 'cut 200';
}

test('each request is in the store once, with the ending that its client saw', async () => {
  const { store, close } = await openTestStore('memory');
  const random = seededRandom(70);
  const clock = manualClock();
  let tries = 0;
  const journal = createJournal({
    ...{ clock, log: silentLog, lost: 0 },
    async write(records, lost) {
      const args = { rows: records.map(rowOfRecord), lost, now: 0 };
      tries += 1;
      if (tries % 3 === 1) throw new StoreError('store_failing', 'away');
      await store.transact('recordRequests', args);
      // It happened, and nobody was told.
      if (tries % 3 === 2) throw new StoreError('outcome_unknown', 'who knows');
    },
  });
  const rig = await startRig({ record: journal.add });
  const sights = createSights();
  rig.upstream.answer((reply, question) => {
    const [message] = JSON.parse(question.body).messages as { content: string }[];
    const content = message?.content ?? '';
    sights.saw(content);
    return scripts[content.split(' ', 1)[0] ?? '']?.(reply, question);
  });
  const seen: string[] = [];
  let begun = 0;
  await Promise.all(
    Array.from({ length: at_once }, async () => {
      while (begun < requests) {
        begun += 1;
        const way = ways[(random.bytes(1)[0] ?? 0) % ways.length];
        assert.ok(way);
        const content = `${way.says} ${begun}`;
        seen.push(await one(rig, way, content, sights.of(content)));
      }
    }),
  );
  for (const [sent, ends] of others) {
    await readAll(await open(rig, sent));
    if (ends !== null) seen.push(ends);
  }
  await rig.settled();
  await rig.close();
  while (journal.standing().waiting > 0) {
    clock.advance(limits.request_journal_retry_ms);
    await new Promise((resolve) => setImmediate(resolve));
  }
  const rows = await select<{ outcome: string; status: number | null }>(
    store,
    'select outcome, status from requests limit 1000',
  );
  const told = rows.map(({ outcome, status }) => `${outcome} ${status}`);
  assert.deepEqual(told.sort(), seen.sort());
  const [sum] = await select<{ all: number }>(
    store,
    'select cast(sum(requests) as bigint) as "all" from request_days',
  );
  assert.equal(sum?.all, seen.length);
  await close();
});
