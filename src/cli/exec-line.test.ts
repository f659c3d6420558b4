/**
 * The command line's end of exec, against a server that does what the test says.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { type WebSocket, WebSocketServer } from 'ws';
import { createFakeClock } from '../../test/lib/fake-clock.ts';
import { exec_window_bytes, frameOf } from '../contract/exec-frame.ts';
import { Secret } from '../lib/secret.ts';
import { CliError } from './cli-error.ts';
import { type LineOptions, openExec } from './exec-line.ts';

const clock = createFakeClock();

/** A server whose connections are given to `serve`; closed with the test. */
async function serving(serve: (ws: WebSocket) => void) {
  const server = createServer((_, response) => response.writeHead(500).end());
  const sockets = new WebSocketServer({ server });
  sockets.on('connection', serve);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const printed: Buffer[] = [];
  const options: LineOptions = {
    ...{ url, token: new Secret('tsk_x'), workload: 'box', clock, start: { argv: [] } },
    print: async (_channel, bytes) => void printed.push(bytes),
  };
  return {
    options,
    printed,
    async [Symbol.asyncDispose]() {
      for (const one of sockets.clients) one.terminate();
      sockets.close();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const say = (ws: WebSocket, message: object) => ws.send(JSON.stringify(message));

test('an exit is an end, told after what came before it', async () => {
  await using given = await serving((ws) => {
    say(ws, { type: 'started' });
    ws.send(frameOf('stdout', Buffer.from('out')));
    say(ws, { type: 'exit', code: 3, signal: null });
  });
  const line = await openExec(given.options);
  const { how } = await line.ended;
  assert.equal(how, 'exited');
  assert.equal(Buffer.concat(given.printed).toString(), 'out');
});

test('a connection that closes without an exit is lost, whatever was printed', async () => {
  for (const leave of ['close', 'terminate'] as const) {
    await using given = await serving((ws) => {
      say(ws, { type: 'started' });
      ws.send(frameOf('stdout', Buffer.from('all of it')), () => ws[leave]());
    });
    const line = await openExec(given.options);
    assert.deepEqual(await line.ended, { how: 'lost' });
  }
});

test('a connection on which nothing comes any more is lost', async () => {
  await using given = await serving((ws) => say(ws, { type: 'started' }));
  const line = await openExec(given.options);
  clock.advance(36_000);
  assert.deepEqual(await line.ended, { how: 'lost' });
});

test('what the control plane refuses is told with its code', async () => {
  const error = { code: 'stream_cut', message: 'It was cut.', fix: null, request_id: 'r' };
  await using given = await serving((ws) => {
    say(ws, { type: 'started' });
    say(ws, { type: 'error', ...error });
  });
  const line = await openExec(given.options);
  await assert.rejects(
    line.ended,
    (thrown) => thrown instanceof CliError && thrown.exit === 'connection_lost',
  );
});

test('no more is sent ahead than there is room for', async () => {
  let got = 0;
  let server: WebSocket | null = null;
  await using given = await serving((ws) => {
    server = ws;
    say(ws, { type: 'started' });
    ws.on('message', (data: Buffer, is_binary) => {
      if (is_binary) got += data.length - 1;
    });
  });
  const line = await openExec(given.options);
  let is_through = false;
  const typing = line.type(Buffer.alloc(2 * exec_window_bytes)).then((went) => {
    is_through = true;
    return went;
  });
  while (got < exec_window_bytes) await new Promise(setImmediate);
  assert.deepEqual([got, is_through], [exec_window_bytes, false]);
  say(server as unknown as WebSocket, { type: 'ack', bytes: exec_window_bytes });
  assert.equal(await typing, true);
  line.close();
  assert.deepEqual(await line.ended, { how: 'lost' });
  assert.equal(await line.type(Buffer.from('late')), false);
});
