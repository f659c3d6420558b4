/**
 * Answers that come whole: bytes untouched, as they come, at the client's speed, and what happens
 * when the client leaves.
 */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import fc from 'fast-check';
import OpenAI from 'openai';
import { good_key, open, type Rig, readAll, send, startRig } from '../../test/lib/gateway-rig.ts';
import { chatEvent, doneEvent, events, json } from '../../test/lib/upstream.ts';
import { systemClock } from '../lib/clock.ts';

let rig: Rig;
before(async () => {
  rig = await startRig();
});
beforeEach(() => {
  rig.upstream.seen.length = 0;
});
after(() => rig.close());

/** Cuts bytes at these places (modulo the length). */
function cut(bytes: Buffer, places: number[]): Buffer[] {
  const ends = [...places.map((place) => place % bytes.length), bytes.length].sort((a, b) => a - b);
  const pieces = ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end));
  return pieces.filter((piece) => piece.length > 0);
}

const line_end = fc.constantFrom('\n', '\r\n', '\r');
const content = fc
  .oneof(
    fc.string({ unit: 'binary', maxLength: 30 }),
    fc.constantFrom('[DONE]', '"usage":{}', ': x'),
  )
  .map((text) => `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: text } }] })}`);
const silent = fc.constantFrom(
  ': ping',
  'data: {"choices":[]}',
  'data:{"choices":[{"delta":{"role":"assistant","content":null}}]}',
  'id: 7',
);
const frame = fc
  .tuple(fc.array(fc.oneof(content, silent), { minLength: 1, maxLength: 1 }), line_end)
  .map(([lines, end]) => `${lines.join(end)}${end}${end}`);
const stream = fc
  .tuple(fc.array(frame, { maxLength: 12 }), line_end)
  .map(([frames, end]) => Buffer.from(frames.join('') + doneEvent.replaceAll('\n', end)));

test('any stream in any chunks reaches the client byte for byte, and ends well', async () => {
  await fc.assert(
    fc.asyncProperty(stream, fc.array(fc.nat(), { maxLength: 8 }), async (bytes, places) => {
      rig.upstream.answer(events(...cut(bytes, places)));
      const got = await send(rig);
      assert.deepEqual([got.status, got.whole], [200, true]);
      // Half an end of a line may be left of what comes after the end of all.
      assert.equal(got.text.trimEnd(), bytes.toString().trimEnd());
    }),
    { numRuns: 60 },
  );
});

test('an event that says null, as llama-server begins with, is none', async () => {
  rig.upstream.answer(events('data: null\n\n', chatEvent('hi'), doneEvent));
  const got = await send(rig);
  assert.equal(got.text, chatEvent('hi') + doneEvent);
  rig.upstream.answer(events('data: null\n\n', chatEvent('hi'), doneEvent));
  const whole = await send(rig, { body: { model: 'smol', messages: [] } });
  assert.equal(JSON.parse(whole.text).choices[0].message.content, 'hi');
});

test('each chunk reaches the client before the engine sends the next', async () => {
  const received: string[] = [];
  rig.upstream.answer(async (reply) => {
    reply.writeHead(200, { 'Content-Type': 'text/event-stream' });
    for (const text of ['one', 'two', 'three']) {
      const here = new Promise<void>((resolve) => {
        onChunk = resolve;
      });
      reply.write(chatEvent(text));
      await here;
    }
    reply.end(doneEvent);
  });
  let onChunk = () => {};
  const answer = await open(rig);
  assert.equal(answer.headers['content-type'], 'text/event-stream');
  assert.equal(answer.headers['cache-control'], 'no-cache, no-transform');
  assert.equal(answer.headers['x-accel-buffering'], 'no');
  assert.equal(answer.headers['content-length'], undefined);
  for await (const chunk of answer) {
    received.push(String(chunk));
    onChunk();
  }
  assert.deepEqual(received.slice(0, 3), ['one', 'two', 'three'].map(chatEvent));
});

test('a slow client slows the engine down, and still gets every byte', async () => {
  const event = Buffer.from(chatEvent('x'.repeat(64 * 1024)));
  const count = 512;
  let written = 0;
  rig.upstream.answer(async (reply) => {
    reply.writeHead(200, { 'Content-Type': 'text/event-stream' });
    for (let index = 0; index < count; index += 1) {
      written += event.length;
      if (!reply.write(event)) await new Promise((resolve) => reply.once('drain', resolve));
    }
    reply.end(doneEvent);
  });
  const answer = await open(rig);
  // The answer is not read. Once 20 others pass with nothing more written, the engine waits.
  for (let still = 0, last = -1; still < 20; still = written === last ? still + 1 : 0) {
    last = written;
    await send(rig, { method: 'GET', path: '/v1/models', body: '' });
  }
  assert.ok(written < (count * event.length) / 2, `${written} bytes were taken from the engine`);
  const got = await readAll(answer);
  assert.equal(got.bytes.length, count * event.length + doneEvent.length);
  assert.equal(got.whole, true);
});

test('a client that takes nothing for too long loses the engine', async () => {
  rig.upstream.answer((reply) => {
    reply.writeHead(200, { 'Content-Type': 'text/event-stream' });
    reply.write(chatEvent('x'.repeat(1024 * 1024)).repeat(32));
  });
  const asked = rig.upstream.next();
  const opened = open(rig);
  const [seen] = await Promise.all([asked, opened]);
  let gone = false;
  const left = seen.gone.then(() => {
    gone = true;
  });
  while (!gone) {
    rig.clock.advance(60_000);
    await send(rig, { method: 'GET', path: '/v1/models', body: '' });
  }
  await left;
  opened.leave();
  await rig.settled();
  assert.equal(rig.logged.filter((one) => one.outcome === 'client_stalled').length, 1);
});

test('a client that leaves takes the connection to the engine along within 100 ms', async () => {
  const hang = () => {};
  const midway = (reply: { write(text: string): void }) => reply.write(chatEvent('so'));
  for (const [when, script] of [
    ['before the first byte', hang],
    ['midway', midway],
  ] as const) {
    const took: number[] = [];
    for (let turn = 0; turn < 5; turn += 1) {
      rig.upstream.answer((reply) => {
        reply.setHeader('Content-Type', 'text/event-stream');
        script(reply);
      });
      const asked = rig.upstream.next();
      const opened = open(rig);
      const seen = await asked;
      if (when === 'midway')
        await new Promise((resolve) => opened.then((a) => a.once('data', resolve)));
      const left_at = systemClock.monotonic();
      opened.leave();
      await seen.gone;
      took.push(systemClock.monotonic() - left_at);
      rig.upstream.seen.length = 0;
    }
    // The best of five: a busy machine may hold any one of them up.
    assert.ok(Math.min(...took) < 100, `${when}: ${took}`);
    await rig.settled();
    assert.equal(rig.logged.at(-1)?.outcome, 'client_left');
  }
});

test('a client that leaves while the connection is still being made costs nothing', async () => {
  let dialled = () => {};
  const dialling = new Promise<void>((resolve) => {
    dialled = resolve;
  });
  const slow = await startRig({
    dial: () => {
      dialled();
      return new Promise(() => {});
    },
  });
  const opened = open(slow);
  await dialling;
  opened.leave();
  await slow.settled();
  assert.equal(slow.logged.at(-1)?.outcome, 'client_left');
  await slow.close();
});

const client = (maxRetries = 0) =>
  new OpenAI({ baseURL: `${rig.url}/v1`, apiKey: good_key, maxRetries });
const messages = [{ role: 'user' as const, content: 'Say hello.' }];

test("npm's openai streams through it", async () => {
  const text = 'Grüße, 世界 👋';
  const bytes = Buffer.from([...text].map(chatEvent).join('').replaceAll('\n', '\r\n') + doneEvent);
  rig.upstream.answer(
    events(
      ...cut(
        bytes,
        Array.from({ length: 200 }, (_, index) => index * 7),
      ),
    ),
  );
  const answer = await client().chat.completions.create({ model: 'smol', messages, stream: true });
  let got = '';
  for await (const chunk of answer) got += chunk.choices[0]?.delta.content ?? '';
  assert.equal(got, text);
});

test("npm's openai gets a whole answer, the models, and errors with their request", async () => {
  const message = { role: 'assistant', content: 'Hello.', refusal: null };
  rig.upstream.answer(json(200, { id: 'c', choices: [{ index: 0, message }] }));
  const answer = await client().chat.completions.create({ model: 'smol', messages });
  assert.equal(answer.choices[0]?.message.content, 'Hello.');
  assert.match(String(answer._request_id), /^r\d+$/);
  const models = await client().models.list();
  assert.deepEqual(
    models.data.map((model) => model.id),
    ['smol'],
  );
  await assert.rejects(client().chat.completions.create({ model: 'none', messages }), (error) => {
    assert.ok(error instanceof OpenAI.NotFoundError);
    assert.equal(error.code, 'model_not_found');
    assert.match(String(error.requestID), /^r\d+$/);
    return true;
  });
  const stranger = new OpenAI({ baseURL: `${rig.url}/v1`, apiKey: 'ept_no', maxRetries: 0 });
  await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);
});

test("npm's openai hears of a cut stream, and does not repeat what is lost", async () => {
  rig.upstream.answer(async (reply) => {
    reply.setHeader('Content-Type', 'text/event-stream');
    await new Promise((resolve) => reply.write(chatEvent('so'), resolve));
    reply.destroy();
  });
  const answer = await client(2).chat.completions.create({ model: 'smol', messages, stream: true });
  await assert.rejects(async () => {
    for await (const _ of answer);
  }, /closed the connection before its answer was whole/);
  rig.upstream.seen.length = 0;
  rig.upstream.answer((reply) => void reply.destroy());
  const lost = client(2).chat.completions.create({ model: 'smol', messages });
  await assert.rejects(lost, OpenAI.InternalServerError);
  assert.ok(rig.upstream.seen.length <= 2, 'one question, and one more where the first was stale');
});
