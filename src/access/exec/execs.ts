/**
 * Programs beside runs, over WebSockets: who may, which run, and how long.
 *
 * Invariants: a program starts only after its row stands in the activity log; it ends with its
 * connection, its run and the proof that opened it, within a second; the log names the program, but
 * neither its arguments nor a byte of what it reads or prints; every end is said to the client.
 */
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import { EinsoraError } from '../../contract/errors.ts';
import type { ExecStart, ExecTellMessage } from '../../contract/exec.ts';
import { exec_protocol, exec_window_bytes } from '../../contract/exec-frame.ts';
import { limits } from '../../contract/limits.ts';
import { makeId } from '../../core/ids.ts';
import type { RunKey } from '../../core/run.ts';
import type { Clock } from '../../lib/clock.ts';
import { describeError, type Log } from '../../lib/log.ts';
import type { Random } from '../../lib/random.ts';
import type { ExecAsk, ExecSession } from '../../lib/session.ts';
import type { Action } from '../../store/activity.ts';
import type { EinsoraStore } from '../../store/transactions.ts';
import { type Beside, findBeside } from './beside.ts';
import { runError } from './errors.ts';
import { createPump, type Line, readMessage } from './pump.ts';

export type ExecsDeps = {
  store: EinsoraStore;
  clock: Clock;
  random: Random;
  exec(machine_id: string, run: RunKey, ask: ExecAsk, signal: AbortSignal): Promise<ExecSession>;
  /** Calls `ended` once when the run is not its workload's running one. Returns the undoing. */
  watchRun(run: RunKey, ended: () => void): () => void;
  /** Wakes what was stopped for being idle, and waits for it as long as somebody does. */
  awaken?(workload_id: string, waiting: { destroyed: boolean }): Promise<void>;
  /** A workload was used. */
  touched(workload_id: string): void;
};

/** A window of stdin, with the messages among it. */
const early_limit_bytes = exec_window_bytes + limits.exec_frame_bytes;

/** An authorised opening handshake. */
export type ExecCall = {
  request: IncomingMessage;
  socket: Duplex;
  head: Buffer;
  principal: {
    user_id: string;
    user_name: string;
    tenant_id: string;
    via: 'token' | 'session';
    proof_id: string;
  };
  params: Record<string, string>;
  request_id: string;
  log: Log;
  /** Says goodbye when the proof ends. */
  farewell(say: () => void): void;
};

export function createExecs(deps: ExecsDeps): (call: ExecCall) => Promise<void> {
  const server = new WebSocketServer({
    ...{ noServer: true, perMessageDeflate: false, clientTracking: false },
    maxPayload: limits.exec_frame_bytes,
    handleProtocols: () => exec_protocol,
  });
  return async (call) => {
    const { request, socket, head, principal, params } = call;
    const offered = (request.headers['sec-websocket-protocol'] ?? '').split(',');
    if (!offered.some((name) => name.trim() === exec_protocol)) {
      const problem = `the WebSocket must offer the subprotocol ${exec_protocol}`;
      throw new EinsoraError('bad_request', { problem });
    }
    const { tenant_id } = principal;
    const beside = await findBeside(deps.store, tenant_id, params.workload ?? '', (id) =>
      deps.awaken?.(id, socket),
    );
    if (socket.destroyed) return;
    server.handleUpgrade(request, socket, head, (ws) => serve(deps, call, beside, ws));
  };
}

function serve(deps: ExecsDeps, call: ExecCall, beside: Beside, ws: WebSocket): void {
  const { clock } = deps;
  const { log, request_id } = call;
  const over = new AbortController();
  const end = (error: EinsoraError) => {
    if (over.signal.aborted) return;
    const { code, message, fix } = error.body(request_id).error;
    tell(ws, { type: 'error', code, message, fix, request_id });
    ws.close(1011, code.slice(0, 100));
    over.abort();
    // A client that does not answer the goodbye is not waited for.
    clock.after(limits.upgrade_farewell_ms, () => ws.terminate());
  };
  const cut = (why: string) => end(new EinsoraError('stream_cut', { name: beside.name, why }));
  const unwatch = deps.watchRun(beside.run, () => cut('it was stopped, or runs anew'));
  call.farewell(() => cut('you are no longer signed in'));
  const begun = clock.after(limits.exec_start_ms, () => cut('it was not told what to start'));
  const undo = [unwatch, begun, keepAlive(deps, beside, ws)];
  ws.once('close', () => {
    over.abort();
    for (const one of undo) one();
  });
  ws.on('error', () => ws.terminate());
  ws.once('message', (data, is_binary) => {
    begun();
    const said = is_binary ? null : readMessage(String(data));
    if (said?.type !== 'start') return end(protocolError('it begins with `start`'));
    play({ deps, call, beside, ws, end, over }, said).catch((thrown) => {
      const error = runError(thrown, beside.name, request_id);
      if (error.code === 'internal') log.error({ error: describeError(thrown) }, 'an exec failed');
      end(error);
    });
  });
}

type Playing = {
  deps: ExecsDeps;
  call: ExecCall;
  beside: Beside;
  ws: WebSocket;
  end: (error: EinsoraError) => void;
  over: AbortController;
};

async function play(playing: Playing, start: ExecStart): Promise<void> {
  const { deps, call, beside, ws, end, over } = playing;
  // What comes before the program is there waits for it.
  const early: [Buffer, boolean][] = [];
  let early_bytes = 0;
  const keep = (data: Buffer, is_binary: boolean) => {
    early_bytes += data.length;
    if (early_bytes > early_limit_bytes) end(protocolError('it sends too much'));
    else early.push([data, is_binary]);
  };
  ws.on('message', keep);
  const action = actionOf(deps, call);
  const program = (start.argv[0] ?? 'a shell').slice(0, limits.exec_program_chars);
  await deps.store.transact('recordExec', { workload_id: beside.workload_id, program, action });
  if (over.signal.aborted) return;
  const ask = { argv: start.argv, env: start.env ?? {}, cwd: start.cwd ?? null };
  const terminal = start.terminal ?? null;
  const { machine_id, run } = beside;
  const session = await deps.exec(machine_id, run, { ...ask, terminal }, over.signal);
  const line: Line = {
    sendBytes: (frame) =>
      new Promise((resolve, reject) =>
        ws.send(frame, (error) => (error ? reject(error) : resolve())),
      ),
    tell: (message) => tell(ws, message),
    fail: (problem) => end(protocolError(problem)),
  };
  const pump = createPump(session, line);
  const hangUp = () => {
    pump.close();
    session.kill();
    session.stdout.destroy();
    session.stderr?.destroy();
  };
  if (over.signal.aborted) return hangUp();
  over.signal.addEventListener('abort', hangUp, { once: true });
  tell(ws, { type: 'started' });
  const take = (data: Buffer, is_binary: boolean) => {
    if (over.signal.aborted) return;
    if (is_binary) return pump.bytes(data);
    const said = readMessage(String(data));
    if (said === null) end(protocolError('a message is not understood'));
    else pump.message(said);
  };
  ws.off('message', keep);
  for (const [data, is_binary] of early) take(data, is_binary);
  ws.on('message', take);
  const how = await session.exited;
  await pump.sent;
  if (over.signal.aborted) return;
  tell(ws, { type: 'exit', ...how });
  over.signal.removeEventListener('abort', hangUp);
  pump.close();
  ws.close(1000);
  deps.clock.after(limits.upgrade_farewell_ms, () => ws.terminate());
}

/** Asks whether anybody is there; one that does not answer is hung up on. */
function keepAlive({ clock, touched }: ExecsDeps, { workload_id }: Beside, ws: WebSocket) {
  let heard_at = clock.monotonic();
  const heard = () => {
    heard_at = clock.monotonic();
  };
  ws.on('pong', heard).on('message', heard).on('ping', heard);
  touched(workload_id);
  let cancel = clock.after(limits.exec_ping_ms, tick);
  function tick(): void {
    if (clock.monotonic() - heard_at >= limits.exec_silence_ms) {
      ws.terminate();
      return;
    }
    // An open terminal is use, whether or not anything is typed.
    touched(workload_id);
    ws.ping();
    cancel = clock.after(limits.exec_ping_ms, tick);
  }
  return () => cancel();
}

function tell(ws: WebSocket, message: ExecTellMessage): void {
  if (ws.readyState === ws.OPEN) ws.send(JSON.stringify(message));
}

function protocolError(problem: string): EinsoraError {
  return new EinsoraError('bad_request', { problem });
}

function actionOf({ clock, random }: ExecsDeps, { principal, request_id }: ExecCall): Action {
  const { tenant_id, user_id, user_name, via, proof_id } = principal;
  const now = clock.now();
  const id = makeId(now, random.bytes(10));
  return {
    ...{ id, tenant_id, user_id, via, proof_id, request_id, now },
    ...{ actor: `user:${user_name}`, route: 'exec', client_request_id: null },
  };
}
