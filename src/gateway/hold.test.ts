/**
 * What a client gets to see while it waits, and that in the end it hears the truth.
 */
import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { test } from 'node:test';
import { errorOf, open, readAll, send } from '../../test/lib/gateway-rig.ts';
import { type ReplicaRig, startReplicaRig } from '../../test/lib/replica-rig.ts';
import { chatEvent, doneEvent, events, type Script } from '../../test/lib/upstream.ts';

const good = events(chatEvent('hi'), doneEvent);
const ping = ': waiting\n\n';
const plain = { body: { model: 'smol', messages: [] } };

/** An engine whose answer waits for the test. */
function held(script: Script) {
  let go = () => {};
  const going = new Promise<void>((resolve) => {
    go = resolve;
  });
  const waits: Script = async (reply, seen) => {
    await going;
    await script(reply, seen);
  };
  return { waits, go: () => go() };
}

async function withRig(scripts: Script[], body: (rig: ReplicaRig) => Promise<void>) {
  const rig = await startReplicaRig(scripts);
  try {
    await body(rig);
  } finally {
    await rig.close();
  }
}

/** The answer to a stream whose engine said nothing for as long as an answer is held. */
async function toldToWait(rig: ReplicaRig): Promise<IncomingMessage> {
  const asked = rig.engines[0]?.next();
  const answer = open(rig);
  await asked;
  rig.clock.advance(10_000);
  return answer;
}

test('a client that waits for long is told so, and in the end who answered', async () => {
  const { waits, go } = held(good);
  await withRig([waits], async (rig) => {
    const answer = await toldToWait(rig);
    const { headers, statusCode } = answer;
    assert.equal(statusCode, 200);
    for (const name of ['served-by', 'fallback', 'attempts']) {
      assert.equal(headers[`x-einsora-${name}`], 'pending', name);
    }
    assert.match(String(headers['x-request-id']), /^r\d+$/);
    rig.clock.advance(15_000);
    rig.clock.advance(14_999);
    go();
    const { text, whole } = await readAll(answer);
    const truth =
      ': X-Einsora-Served-By: machine=m0; class=cpu-1; region=home; model=smol\n' +
      ': X-Einsora-Fallback: none\n: X-Einsora-Attempts: 1\n\n';
    const done = 'data: [DONE]\n\n';
    const finish = doneEvent.slice(0, -done.length);
    assert.equal(text, ping + ping + chatEvent('hi') + finish + truth + done);
    assert.equal(whole, true);
  });
});

test('within that time nothing at all is sent, and all is exact', async () => {
  const { waits, go } = held((reply) => void reply.writeHead(500).end('{}'));
  await withRig([waits], async (rig) => {
    const asked = rig.engines[0]?.next();
    const answer = send(rig);
    await asked;
    rig.clock.advance(9_999);
    go();
    const got = await answer;
    assert.deepEqual([got.status, got.headers['x-einsora-attempts']], [500, '1']);
  });
});

test('an answer that fails after the client was told to wait is an error event, and cut', async () => {
  const { waits, go } = held((reply) => void reply.destroy());
  await withRig([waits], async (rig) => {
    const answer = await toldToWait(rig);
    go();
    const { text, whole } = await readAll(answer);
    assert.equal(whole, false);
    const error = JSON.parse(text.slice(ping.length + 'data: '.length)).error;
    assert.equal(error.code, 'engine_cut');
    await rig.settled();
    assert.deepEqual([rig.records[0]?.outcome, rig.records[0]?.status], ['cut', 200]);
  });
});

test('a client that waits is served by the second engine as if there had been no first', async () => {
  const { waits, go } = held((reply) => void reply.destroy());
  await withRig([waits, good], async (rig) => {
    const answer = await toldToWait(rig);
    go();
    const { text, whole } = await readAll(answer);
    assert.equal(whole, true);
    assert.match(text, /machine=m1;.*\n.*\n: X-Einsora-Attempts: 2\n\ndata: \[DONE\]/);
  });
});

test('a client that wants no stream waits for an exact answer', async () => {
  const { waits, go } = held(good);
  await withRig([waits], async (rig) => {
    const asked = rig.engines[0]?.next();
    const answer = send(rig, plain);
    await asked;
    rig.clock.advance(60_000);
    go();
    const got = await answer;
    assert.deepEqual([got.status, JSON.parse(got.text).object], [200, 'chat.completion']);
    assert.match(String(got.headers['x-einsora-served-by']), /machine=m0/);
  });
});

test('a silent answer is filled with comments every 15 s', async () => {
  let more = () => {};
  const pauses: Script = async (reply) => {
    const going = new Promise<void>((resolve) => {
      more = resolve;
    });
    reply.setHeader('Content-Type', 'text/event-stream');
    reply.write(chatEvent('hi'));
    await going;
    reply.end(doneEvent);
  };
  await withRig([pauses], async (rig) => {
    const answer = await open(rig);
    await new Promise((resolve) => answer.once('readable', resolve));
    rig.clock.advance(15_000);
    rig.clock.advance(15_000);
    more();
    const { text } = await readAll(answer);
    assert.equal(text, chatEvent('hi') + ping + ping + doneEvent);
  });
});

test('a request has an end, however busy its engine seems', async () => {
  await withRig([() => {}], async (rig) => {
    const asked = rig.engines[0]?.next();
    const answer = send(rig, plain);
    const seen = await asked;
    // Whatever each engine has done meanwhile, this is all there is.
    rig.clock.advance(3_600_000);
    assert.equal((await answer).status, 504);
    await seen?.gone;
  });
});

test('a queue that has no turn for a client says so, at once or late', async () => {
  let refuse = () => {};
  const refusal = { status: 503, message: 'no turn', code: 'queue_full', retry_after_s: 3 };
  const rig = await startReplicaRig([good], {
    turns: {
      enter: () =>
        new Promise((resolve) => {
          refuse = () => resolve({ ok: false, refusal });
          entered();
        }),
      standing: () => [],
    },
  });
  let entered = () => {};
  const entering = () =>
    new Promise<void>((resolve) => {
      entered = resolve;
    });
  try {
    const early = entering();
    const soon = send(rig);
    await early;
    refuse();
    const told = await soon;
    assert.deepEqual([told.status, errorOf(told).code], [503, 'queue_full']);
    assert.equal(told.headers['retry-after'], '3');
    const later = entering();
    const late = open(rig);
    await later;
    rig.clock.advance(10_000);
    await late;
    refuse();
    assert.match((await readAll(await late)).text, /"code":"queue_full"/);
    assert.deepEqual(rig.asked(), [0]);
  } finally {
    await rig.close();
  }
});
