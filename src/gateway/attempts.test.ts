/**
 * One engine fails, another answers: when that is so, and what the client gets to see of it.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorOf, type Got, open, readAll, send } from '../../test/lib/gateway-rig.ts';
import { type ReplicaRig, startReplicaRig } from '../../test/lib/replica-rig.ts';
import {
  chatEvent,
  doneEvent,
  events,
  finishEvent,
  json,
  type Script,
} from '../../test/lib/upstream.ts';
import { createResponseFill } from './engines/response-events.ts';

const good = events(chatEvent('hi'), doneEvent);
const plain = { body: { model: 'smol', messages: [] } };
const role = 'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}\n\n';
const error = 'data: {"error":{"message":"slot lost","code":500,"type":"server_error"}}\n\n';
const aborted = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"abort"}]}\n\n';

function cutAfter(text: string): Script {
  return async (reply) => {
    reply.setHeader('Content-Type', 'text/event-stream');
    reply.flushHeaders();
    if (text !== '') await new Promise((resolve) => reply.write(text, resolve));
    setImmediate(() => reply.destroy());
  };
}

/** Ways to fail before an answer has content. */
const failures: Record<string, Script> = {
  'closes at once': (reply) => void reply.destroy(),
  'is reset': (reply) => void reply.socket?.resetAndDestroy(),
  'sends half a status line': ({ socket }) =>
    void socket?.write('HTTP/1.1 2', () => socket.destroy()),
  'is cut after its headers': cutAfter(''),
  'is cut after a role': cutAfter(role),
  'is cut in an event': cutAfter('data: {"choices":[{"delta":{"content":"h'),
  'says 500': json(500, { error: { message: 'oops', type: 'server_error' } }),
  'says 503': json(503, { error: { message: 'Loading model', type: 'unavailable_error' } }),
  'says 429': json(429, { error: { message: 'busy' } }),
  'says 401 to us': json(401, { error: { message: 'x', type: 'authentication_error' } }),
  redirects: (reply) => void reply.writeHead(302, { Location: 'http://elsewhere.invalid/' }).end(),
  'tells an error in a stream': events(role, error),
  'tells an error at first': events(error),
  'gives up': events(role, aborted, 'data: [DONE]\n\n'),
  'ends with nothing': events(),
  'ends with [DONE] and nothing': events(role, 'data: [DONE]\n\n'),
  'ends without content': events(': ping\n\n', role),
  'sends garbage': events('data: garbage\n\n'),
  'is no stream': (reply) => void reply.end('<html>'),
};

async function withEngines(scripts: Script[], body: (rig: ReplicaRig) => Promise<void>) {
  const rig = await startReplicaRig(scripts);
  try {
    await body(rig);
  } finally {
    await rig.close();
  }
}

function assertGood(got: Got, is_stream: boolean): void {
  assert.deepEqual([got.status, got.whole], [200, true], got.text);
  if (is_stream) assert.equal(got.text, chatEvent('hi') + doneEvent);
  else assert.equal(JSON.parse(got.text).choices[0].message.content, 'hi');
}

for (const [how, script] of Object.entries(failures)) {
  test(`an engine that ${how} is left for another, unseen`, async () => {
    for (const is_stream of [true, false]) {
      await withEngines([script, good], async (rig) => {
        const got = await send(rig, is_stream ? {} : plain);
        assertGood(got, is_stream);
        assert.match(String(got.headers['x-einsora-served-by']), /machine=m1/);
        assert.equal(got.headers['x-einsora-attempts'], '2');
        await rig.settled();
        assert.deepEqual(rig.ends, ['0 failed', '1 answered']);
        const [record] = rig.records;
        assert.deepEqual(
          [rig.records.length, record?.outcome, record?.attempts, record?.run?.replica],
          [1, 'answered', 2, 1],
        );
      });
    }
  });
}

test('no other engine is asked where the client is to blame', async () => {
  const cases: [Script, number][] = [
    [json(400, { error: { message: 'bad', type: 'invalid_request_error' } }), 400],
    [json(422, { detail: 'nope' }), 422],
    [events('data: {"error":{"message":"too long","code":400}}\n\n'), 400],
  ];
  for (const [script, status] of cases) {
    await withEngines([script, good], async (rig) => {
      const got = await send(rig);
      assert.equal(got.status, status);
      await rig.settled();
      assert.deepEqual(rig.asked(), [1, 0]);
      assert.deepEqual(rig.ends, ['0 refused']);
      assert.equal(rig.records[0]?.outcome, 'refused');
    });
  }
});

test('no other engine is asked once a client has part of an answer', async () => {
  for (const last of ['', error, aborted]) {
    await withEngines([cutAfter(role + chatEvent('so') + last), good], async (rig) => {
      const got = await send(rig);
      assert.deepEqual([got.status, got.whole], [200, false]);
      assert.match(got.text, /"content":"so".*\n\ndata: \{"error":\{"message":[^\n]*\n\n$/s);
      assert.doesNotMatch(got.text, /DONE|abort"/);
      await rig.settled();
      assert.deepEqual(rig.asked(), [1, 0]);
      assert.equal(rig.records[0]?.outcome, 'cut');
      assert.equal(rig.records[0]?.status, 200);
    });
  }
});

test('what began for a client that wants no stream may be lost once, not twice', async () => {
  const lost = cutAfter(chatEvent('so'));
  await withEngines([lost, good], async (rig) => {
    assertGood(await send(rig, plain), false);
  });
  await withEngines([lost, lost, good], async (rig) => {
    const got = await send(rig, plain);
    assert.deepEqual([got.status, errorOf(got).code, got.whole], [502, 'engine_cut', true]);
    assert.deepEqual(rig.asked(), [1, 1, 0]);
    assert.equal(got.headers['x-should-retry'], 'false');
  });
});

test('an answer of several choices is whole once each of them has ended', async () => {
  const choice = (index: number, content: string | null, finish_reason: string | null) =>
    `data: ${JSON.stringify({ choices: [{ index, delta: { content }, finish_reason }] })}\n\n`;
  const first = [choice(0, 'a', null), choice(1, 'b', null), choice(0, null, 'stop')];
  const done = 'data: [DONE]\n\n';
  const body = { model: 'smol', messages: [], n: 2 };
  await withEngines(
    [events(...first, done), events(...first, choice(1, null, 'stop'), done)],
    async (rig) => {
      const cut = await send(rig, { body: { ...body, stream: true } });
      assert.equal(cut.whole, false);
      assert.match(cut.text, /"code":"engine_unfinished"/);
      const got = await send(rig, { body });
      assert.deepEqual([got.status, JSON.parse(got.text).choices.length], [200, 2]);
      rig.engines[0]?.answer(events(...first, choice(1, null, 'stop'), done));
      const whole = await send(rig, { body: { ...body, stream: true } });
      assert.deepEqual([whole.whole, whole.text.endsWith(done)], [true, true]);
    },
  );
});

test('each engine is asked once, and the client is told what went wrong first', async () => {
  const oops = json(500, { error: { message: 'oops', type: 'server_error' } });
  await withEngines([oops, cutAfter(''), cutAfter(role)], async (rig) => {
    const got = await send(rig);
    assert.deepEqual([got.status, errorOf(got).message], [500, 'oops']);
    assert.equal(got.headers['x-einsora-served-by'], undefined);
    assert.equal(got.headers['x-einsora-attempts'], '3');
    assert.deepEqual(rig.asked(), [1, 1, 1]);
    assert.equal(got.headers['x-should-retry'], 'false');
  });
});

test('where one of them says that waiting helps, the client is told that', async () => {
  const loading = json(503, { error: { message: 'Loading model', type: 'unavailable_error' } });
  await withEngines([cutAfter(''), loading], async (rig) => {
    const got = await send(rig);
    assert.deepEqual([got.status, got.headers['retry-after']], [503, '2']);
    assert.equal(got.headers['x-should-retry'], undefined);
  });
});

test('an engine that is silent is left after its time, and nothing of it is left', async () => {
  const stalls: Script = (reply) => {
    reply.setHeader('Content-Type', 'text/event-stream');
    reply.write(role.replace('assistant', 'nobody'));
  };
  await withEngines([stalls, good], async (rig) => {
    const asked = rig.engines[0]?.next();
    const answer = send(rig, plain);
    const seen = await asked;
    // Whether its first bytes are there yet or not, this is too long.
    rig.clock.advance(300_000);
    assertGood(await answer, false);
    await seen?.gone;
  });
});

test('a first event of more than is held goes out all the same', async () => {
  const large = `: ${'x'.repeat(70 * 1024)}\n\n`;
  await withEngines([cutAfter(large), good], async (rig) => {
    const got = await send(rig);
    assert.equal(got.status, 200);
    assert.ok(got.text.startsWith(large));
    assert.deepEqual(rig.asked(), [1, 0]);
  });
});

test('an event without end is more than the gateway keeps', async () => {
  const endless: Script = async (reply) => {
    reply.setHeader('Content-Type', 'text/event-stream');
    const piece = `data: ${'x'.repeat(1024 * 1024)}`;
    for (let count = 0; count < 10 && !reply.destroyed; count += 1) {
      await new Promise((resolve) => reply.write(piece, resolve));
    }
  };
  await withEngines([endless], async (rig) => {
    const got = await send(rig);
    assert.deepEqual([got.status, errorOf(got).code], [502, 'engine_too_much']);
  });
  await withEngines([endless, good], async (rig) => assertGood(await send(rig), true));
});

test('informational answers before the real one mean nothing', async () => {
  const early: Script = (reply, seen) => {
    reply.writeProcessing();
    reply.writeEarlyHints({ link: '</x>; rel=preload' });
    return good(reply, seen);
  };
  await withEngines([early], async (rig) => assertGood(await send(rig), true));
});

test('a document of the wrong length never looks whole', async () => {
  const short: Script = (reply) => {
    const { socket } = reply;
    socket?.end(
      'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{}',
    );
  };
  const path = '/v1/embeddings';
  const body = { model: 'smol', input: 'x' };
  await withEngines([short], async (rig) => {
    const got = await send(rig, { path, body });
    assert.deepEqual([got.status, errorOf(got).code], [502, 'engine_cut']);
  });
  const whole = { object: 'list', data: [], usage: { prompt_tokens: 3, total_tokens: 3 } };
  await withEngines([short, json(200, whole)], async (rig) => {
    const got = await send(rig, { path, body });
    assert.deepEqual(JSON.parse(got.text), whole);
    await rig.settled();
    assert.equal(rig.records[0]?.use.prompt_tokens, 3);
  });
});

test('a stream of responses commits at its first delta and ends with its last event', async () => {
  const event = (type: string, more: object = {}) =>
    `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
  const created = event('response.created', { response: { id: 'r', error: null } });
  const delta = event('response.output_text.delta', { delta: 'hi' });
  const response = {
    id: 'r',
    output: [],
    error: null,
    usage: { input_tokens: 3, output_tokens: 1 },
  };
  const completed = event('response.completed', { response });
  const failed = event('response.failed', { response: { error: { message: 'lost' } } });
  const body = { model: 'smol', input: 'x', stream: true };
  const path = '/v1/responses';
  await withEngines([events(created, failed), events(created, delta, completed)], async (rig) => {
    const got = await send(rig, { path, body });
    const fill = createResponseFill();
    const wanted = [created, delta, completed].map((one) => {
      const told = JSON.parse(one.slice(one.indexOf('{')));
      return event(told.type, fill(told));
    });
    assert.deepEqual([got.text, got.whole], [wanted.join(''), true]);
    const whole = await send(rig, { path, body: { ...body, stream: false } });
    assert.deepEqual(JSON.parse(whole.text), response);
    await rig.settled();
    for (const { use, outcome } of rig.records) {
      assert.deepEqual([use.prompt_tokens, use.completion_tokens], [3, 1]);
      assert.equal(outcome, 'answered');
    }
  });
  await withEngines([events(created, delta), events(created, delta, completed)], async (rig) => {
    const got = await send(rig, { path, body });
    assert.equal(got.whole, false);
    assert.match(got.text, /data: \{"error"/);
  });
});

test('a client that leaves while a second engine is asked takes that one along', async () => {
  const hangs: Script = () => {};
  await withEngines([cutAfter(role), hangs], async (rig) => {
    const asked = rig.engines[1]?.next();
    const opened = open(rig);
    const seen = await asked;
    opened.leave();
    await seen?.gone;
    await rig.settled();
    assert.deepEqual(rig.ends, ['0 failed', '1 left']);
    const [record] = rig.records;
    assert.deepEqual([record?.outcome, record?.status], ['client_left', null]);
  });
});

test('nothing of the engine that failed reaches the client of the one that answered', async () => {
  const first = role.replace('assistant', 'nobody');
  await withEngines([cutAfter(first), events(role, chatEvent('hi'), doneEvent)], async (rig) => {
    const got = await readAll(await open(rig));
    assert.equal(got.text, role + chatEvent('hi') + doneEvent);
    assert.ok(got.text.includes(finishEvent));
  });
});
