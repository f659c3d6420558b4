/**
 * Answers that do not come whole: cuts, silence, errors of the engine, dead connections.
 */
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { Duplex } from 'node:stream';
import { afterEach, beforeEach, test } from 'node:test';
import {
  errorOf,
  type Got,
  open,
  type Rig,
  readAll,
  replica,
  run,
  send,
  smol,
  startRig,
} from '../../test/lib/gateway-rig.ts';
import { chatEvent, doneEvent, events, json, type Script } from '../../test/lib/upstream.ts';
import { no_request_limits } from '../core/request-limits.ts';

let rig: Rig;
beforeEach(async () => {
  rig = await startRig();
});
afterEach(() => rig.close());

const whole = events(chatEvent('hi'), doneEvent);
const plain = { body: { model: 'smol', messages: [] } };

/** Sends these bytes as an event stream and then does `last` to the connection. */
function startThen(text: string, last: (reply: ServerResponse) => void): Script {
  return async (reply) => {
    reply.setHeader('Content-Type', 'text/event-stream');
    await new Promise((resolve) => reply.write(text, resolve));
    last(reply);
  };
}

/** What a client that waits gets from time to time means nothing. */
function withoutPings(text: string): string {
  return text.replaceAll(': waiting\n\n', '');
}

/** Asserts a stream that began with `start`, told of this error once, and broke. */
function assertBroken(got: Got, start: string, code: string): void {
  assert.equal(got.status, 200);
  assert.equal(got.whole, false);
  assert.ok(got.text.startsWith(start));
  const event = /^data: (.*)\n\n$/.exec(got.text.slice(start.length))?.[1];
  const { error } = JSON.parse(event ?? assert.fail(got.text));
  assert.deepEqual([error.code, error.request_id], [code, got.headers['x-request-id']]);
  assert.doesNotMatch(got.text, /\[DONE\]/);
}

test('a stream that is cut or ends without [DONE] tells so and never ends cleanly', async () => {
  const ends: ((reply: ServerResponse) => void)[] = [
    (reply) => reply.destroy(),
    (reply) => reply.end(),
  ];
  for (const last of ends) {
    for (const start of [chatEvent('so'), chatEvent('so').replaceAll('\n', '\r\n')]) {
      for (const part of ['', 'data: {"ch']) {
        rig.upstream.answer(startThen(start + part, last));
        assertBroken(await send(rig), start, 'engine_cut');
      }
    }
  }
  await rig.settled();
  assert.ok(rig.logged.every((one) => one.outcome === 'engine_cut'));
});

test('a reset is a cut, before the first byte and after it', async () => {
  const reset = await startRig({ dial: () => reset.upstream.dialTcp() });
  reset.upstream.answer((reply) => void reply.socket?.resetAndDestroy());
  const early = await send(reset);
  assert.deepEqual([early.status, errorOf(early).code], [502, 'engine_cut']);
  const start = chatEvent('so');
  reset.upstream.answer(startThen(start, (reply) => reply.socket?.resetAndDestroy()));
  const opened = await open(reset);
  assertBroken(await readAll(opened), start, 'engine_cut');
  await reset.close();
});

test('of an event that was cut in the middle of a character nothing goes on', async () => {
  const half = Buffer.from('data: {"content":"é').subarray(0, -1);
  rig.upstream.answer(async (reply) => {
    reply.setHeader('Content-Type', 'text/event-stream');
    reply.write(chatEvent('so'));
    await new Promise((resolve) => reply.write(half, resolve));
    reply.destroy();
  });
  assertBroken(await send(rig), chatEvent('so'), 'engine_cut');
});

test("the engine's own error inside a stream is told once, in our form", async () => {
  const errors = [
    'data: {"error":{"message":"slot lost","code":500,"type":"server_error"}}\n\n',
    'data: {"error":"slot lost"}\n\n',
    'error: {"message":"slot lost"}\n\n',
    'event: error\ndata: {"message":"slot lost"}\n\n',
  ];
  for (const error of errors) {
    rig.upstream.answer(startThen(chatEvent('so') + error + doneEvent, (reply) => reply.end()));
    const got = await send(rig);
    assertBroken(
      got,
      chatEvent('so'),
      /"code":"(server_error|engine_error)"/.exec(got.text)?.[1] ?? '',
    );
  }
});

test('an engine that gives up, or ends without a reason, has not answered', async () => {
  const choice = (reason: string) =>
    `data: {"choices":[{"delta":{},"finish_reason":${reason}}]}\n\n`;
  for (const [last, code] of [
    [choice('"abort"') + doneEvent, 'engine_aborted'],
    [`${choice('null')}data: [DONE]\n\n`, 'engine_unfinished'],
    ['data: {"choices":\n\n', 'engine_garbled'],
    ['data: nonsense\n\n', 'engine_garbled'],
  ] as const) {
    rig.upstream.answer(startThen(chatEvent('so') + last, (reply) => reply.end()));
    const start = last.startsWith(choice('null'))
      ? chatEvent('so') + choice('null')
      : chatEvent('so');
    assertBroken(await send(rig), start, code);
  }
});

test('a connection that breaks after [DONE] changes nothing', async () => {
  rig.upstream.answer(startThen(chatEvent('so') + doneEvent, (reply) => reply.destroy()));
  const got = await send(rig);
  assert.deepEqual([got.text, got.whole], [chatEvent('so') + doneEvent, true]);
});

test('a stream cut after its headers and before any byte is an exact 502', async () => {
  rig.upstream.answer((reply) => {
    reply.writeHead(200, { 'Content-Type': 'text/event-stream' });
    reply.flushHeaders();
    setImmediate(() => reply.destroy());
  });
  const got = await send(rig);
  assert.deepEqual([got.status, errorOf(got).code, got.whole], [502, 'engine_cut', true]);
});

test('an answer that is no stream and was cut is an exact 502', async () => {
  rig.upstream.answer(async (reply) => {
    reply.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': 100 });
    await new Promise((resolve) => reply.write('{"id":', resolve));
    reply.destroy();
  });
  const got = await send(rig, plain);
  assert.deepEqual([got.status, errorOf(got).code, got.whole], [502, 'engine_cut', true]);
});

test('silence before the first byte is 504 after 300 s, not earlier', async () => {
  rig.upstream.answer(() => {});
  const asked = rig.upstream.next();
  const answer = send(rig, plain);
  const seen = await asked;
  rig.clock.advance(299_999);
  await send(rig, { method: 'GET', path: '/v1/models', body: '' });
  assert.ok(rig.logged.every((one) => one.outcome === 'answered'));
  rig.clock.advance(1);
  const got = await answer;
  assert.deepEqual([got.status, errorOf(got).code], [504, 'engine_silent']);
  assert.equal(got.headers['x-should-retry'], 'false');
  await seen.gone;
});

test('a connection that is not made within 5 s is 502', async () => {
  let dialled = () => {};
  const dialling = new Promise<void>((resolve) => {
    dialled = resolve;
  });
  const dead = await startRig({
    dial: () => {
      dialled();
      return new Promise(() => {});
    },
  });
  const answer = send(dead);
  await dialling;
  dead.clock.advance(4_999);
  await send(dead, { method: 'GET', path: '/v1/models', body: '' });
  dead.clock.advance(1);
  const got = await answer;
  assert.deepEqual([got.status, errorOf(got).code], [502, 'engine_unreachable']);
  await dead.close();
});

test('silence between bytes is told after 120 s, and the engine is let go', async () => {
  rig.upstream.answer(startThen(chatEvent('so'), () => {}));
  const asked = rig.upstream.next();
  const answer = await open(rig);
  const seen = await asked;
  await new Promise((resolve) => answer.once('readable', resolve));
  rig.clock.advance(120_000);
  const got = await readAll(answer);
  assertBroken({ ...got, text: withoutPings(got.text) }, chatEvent('so'), 'engine_silent');
  await seen.gone;
});

test('each byte starts the wait anew', async () => {
  let more = (_text: string) => {};
  rig.upstream.answer(
    startThen(chatEvent('0'), (reply) => {
      more = (text) => void reply.write(text);
    }),
  );
  const answer = await open(rig);
  let text = '';
  for await (const chunk of answer) {
    text += withoutPings(String(chunk));
    if (withoutPings(String(chunk)) === '') continue;
    rig.clock.advance(119_999);
    const count = text.split('\n\n').length - 1;
    if (count < 4) more(chatEvent(String(count)));
    else if (!text.endsWith(doneEvent)) more(doneEvent);
    else answer.destroy();
    if (text.endsWith(doneEvent)) break;
  }
  assert.equal(text, ['0', '1', '2', '3'].map(chatEvent).join('') + doneEvent);
});

test('a body that stops arriving is 408', async () => {
  let reading = () => {};
  const asked = new Promise<void>((resolve) => {
    reading = resolve;
  });
  const slow = await startRig({
    findKey: async () => {
      reading();
      return {
        id: 'k',
        tenant_id: 't',
        workload_ids: null,
        expires_at: null,
        revoked_at: null,
        user_id: 'u',
        limits: no_request_limits,
        user_limits: no_request_limits,
      };
    },
  });
  const answer = send(slow, { body: '{"mo', headers: { 'Content-Length': '100' } });
  await asked;
  await new Promise((resolve) => setImmediate(resolve));
  slow.clock.advance(30_000);
  assert.equal((await answer).status, 408);
  await slow.close();
});

test('an engine that cannot be reached is 502, not to be repeated', async () => {
  const dead = await startRig({ dial: async () => Promise.reject(new Error('secret place')) });
  const got = await send(dead);
  assert.deepEqual([got.status, errorOf(got).code], [502, 'engine_unreachable']);
  assert.equal(got.headers['x-should-retry'], 'false');
  assert.ok(!got.text.includes('secret place'));
  await dead.close();
});

test('a fresh connection that dies before its answer is 502 and not asked again', async () => {
  rig.upstream.answer((reply) => void reply.destroy());
  const got = await send(rig);
  assert.deepEqual([got.status, errorOf(got).code], [502, 'engine_cut']);
  assert.equal(got.headers['x-should-retry'], 'false');
  assert.equal(rig.upstream.seen.length, 1);
});

test('a kept connection that turns out dead is replaced by a fresh one, once, unseen', async () => {
  rig.upstream.answer(whole);
  await send(rig);
  rig.upstream.answer((reply, seen) =>
    seen.connection === 1 ? void reply.destroy() : whole(reply, seen),
  );
  const got = await send(rig);
  assert.deepEqual([got.status, got.whole], [200, true]);
  assert.deepEqual(
    rig.upstream.seen.map((seen) => seen.connection),
    [1, 1, 2],
  );
  rig.upstream.answer((reply) => void reply.destroy());
  assert.equal((await send(rig)).status, 502);
  assert.equal(rig.upstream.seen.length, 5, 'the second attempt was the last one');
});

test('half a status line is a byte: that question is not sent twice', async () => {
  rig.upstream.answer(whole);
  await send(rig);
  rig.upstream.answer((reply) => {
    const { socket } = reply;
    socket?.write('HTTP/1.1 2', () => socket.destroy());
  });
  assert.equal((await send(rig)).status, 502);
  assert.equal(rig.upstream.seen.length, 2);
});

test('connections are kept for a run, and not for longer than an engine keeps them', async () => {
  rig.upstream.answer(whole);
  for (let turn = 0; turn < 3; turn += 1) await send(rig);
  assert.equal(rig.upstream.connectionCount(), 1);
  await rig.settled();
  const [seen] = rig.upstream.seen;
  rig.clock.advance(4_000);
  await seen?.gone;
  await send(rig);
  assert.equal(rig.upstream.connectionCount(), 2);
});

test('a new run closes the connections of the old one', async () => {
  let run_epoch = 1;
  const moving = await startRig({
    findEndpoint: async () => smol({ ...replica, run: { ...run, run_epoch } }),
  });
  moving.upstream.answer(whole);
  await send(moving);
  await moving.settled();
  run_epoch = 2;
  await send(moving);
  await moving.upstream.seen[0]?.gone;
  run_epoch = 1;
  await send(moving);
  run_epoch = 2;
  await send(moving);
  const connections = moving.upstream.seen.map((seen) => seen.connection);
  assert.deepEqual(connections, [1, 2, 3, 2], 'an old view gets its own and pushes nothing out');
  await moving.close();
});

test('a stream that is no socket serves and is kept as well', async () => {
  let dialled = 0;
  const tunnel = await startRig({
    dial: async () => {
      dialled += 1;
      const socket = await tunnel.upstream.dial();
      return Duplex.from({ readable: socket, writable: socket });
    },
  });
  tunnel.upstream.answer(whole);
  for (let turn = 0; turn < 3; turn += 1) assert.equal((await send(tunnel)).whole, true);
  assert.equal(dialled, 1);
  tunnel.upstream.answer(startThen(chatEvent('so'), (reply) => reply.destroy()));
  assertBroken(await send(tunnel), chatEvent('so'), 'engine_cut');
  await tunnel.close();
});

test("the engine's errors come in one shape, and never blame the client for ours", async () => {
  const llama = (status: number, message: string, type: string) =>
    json(status, { error: { code: status, message, type, n_ctx: 8 } });
  const cases: [Script, number, string, string | RegExp][] = [
    [
      llama(400, 'too long', 'exceed_context_size_error'),
      400,
      'context_length_exceeded',
      'too long',
    ],
    [llama(400, 'bad', 'invalid_request_error'), 400, 'invalid_request_error', 'bad'],
    [llama(503, 'Loading model', 'unavailable_error'), 503, 'not_ready', 'Loading model'],
    [llama(500, 'oops', 'server_error'), 500, 'server_error', 'oops'],
    [llama(401, 'Invalid API Key', 'authentication_error'), 502, 'engine_error', /status 401/],
    // Its model is of another kind: whoever asks is to ask otherwise.
    [llama(404, 'File Not Found', 'not_found_error'), 400, 'not_supported', /this API/],
    [llama(404, 'no such model', 'not_found_error'), 502, 'engine_error', /status 404/],
    [json(422, { detail: 'nope' }), 422, null as never, 'nope'],
    [json(302, {}), 502, 'engine_error', /status 302/],
    [(reply) => void reply.writeHead(500).end('<html>'), 500, 'engine_error', /status 500/],
  ];
  for (const [script, status, code, message] of cases) {
    rig.upstream.answer(script);
    const got = await send(rig);
    const error = errorOf(got);
    assert.deepEqual([got.status, error.code], [status, code]);
    assert.match(String(error.message), new RegExp(message));
    assert.deepEqual(Object.keys(error), ['message', 'type', 'param', 'code', 'request_id']);
    assert.equal(got.headers['retry-after'], status === 503 ? '2' : undefined);
    const final = status >= 500 && status !== 503 ? 'false' : undefined;
    assert.equal(got.headers['x-should-retry'], final);
  }
});

test('close tells every open stream and lets its engine go', async () => {
  rig.upstream.answer(startThen(chatEvent('so'), () => {}));
  const asked = rig.upstream.next();
  const answer = await open(rig);
  const seen = await asked;
  await new Promise((resolve) => answer.once('readable', resolve));
  const reading = readAll(answer);
  await rig.gateway.close();
  assertBroken(await reading, chatEvent('so'), 'shutting_down');
  await seen.gone;
});
