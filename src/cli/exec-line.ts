/**
 * The command line's end of a program beside a run: one WebSocket, and an end that is always told
 * apart from a connection that broke.
 *
 * Invariants: no more is sent ahead than the other side has room for, and what came is acknowledged
 * only when it was taken; a connection that is silent for half a minute counts as broken.
 */
import { WebSocket } from 'ws';
import type { ExecStart, ExecTellMessage } from '../contract/exec.ts';
import {
  exec_ack_bytes,
  exec_protocol,
  exec_window_bytes,
  frameOf,
  readFrame,
} from '../contract/exec-frame.ts';
import type { Clock } from '../lib/clock.ts';
import { createCredit } from '../lib/credit.ts';
import type { Secret } from '../lib/secret.ts';
import { CliError } from './cli-error.ts';
import { readAnswer } from './client.ts';
import { exitOfAnswer } from './exit-codes.ts';
import { readText, requestIdOf } from './http.ts';

export type ExecEnd =
  | { how: 'exited'; code: number | null; signal: string | null }
  /** Nobody knows what became of it. */
  | { how: 'lost' };

export type ExecLine = {
  /** Resolves when there is room for more; false when there never will be. */
  type(bytes: Buffer): Promise<boolean>;
  closeStdin(): void;
  resize(columns: number, rows: number): void;
  /** Breaks it off, which ends the program. */
  close(): void;
  /** Rejects with a CliError where the control plane said what is wrong. */
  ended: Promise<ExecEnd>;
};

export type LineOptions = {
  /** Of the control plane, http or https. */
  url: string;
  token: Secret;
  workload: string;
  start: Omit<ExecStart, 'type'>;
  clock: Clock;
  /** Takes what was printed; what it resolves for is acknowledged. */
  print(channel: 'stdout' | 'stderr', bytes: Buffer): Promise<void>;
};

const silence_ms = 35_000;
const piece_bytes = 32 * 1024;

/** Resolves once the program is started. Rejects with a CliError, or with what the system said. */
export function openExec(options: LineOptions): Promise<ExecLine> {
  const { url, token, workload, start, clock } = options;
  const address = new URL(`/v1/workloads/${encodeURIComponent(workload)}/exec`, url);
  address.protocol = address.protocol === 'https:' ? 'wss:' : 'ws:';
  const headers = { authorization: `Bearer ${token.reveal()}` };
  const ws = new WebSocket(address, exec_protocol, { headers, perMessageDeflate: false });
  const credit = createCredit(exec_window_bytes);
  const watch = watchSilence(ws, clock);
  const tell = (message: object) => {
    if (ws.readyState === ws.OPEN) ws.send(JSON.stringify(message));
  };
  let settleEnd: (end: ExecEnd) => void = () => {};
  let failEnd: (error: unknown) => void = () => {};
  const ended = new Promise<ExecEnd>((resolve, reject) => {
    settleEnd = resolve;
    failEnd = reject;
  });
  ended.catch(() => {});
  const printed = printInOrder(options.print, tell);
  const line: ExecLine = {
    async type(bytes) {
      for (let from = 0; from < bytes.length; from += piece_bytes) {
        const piece = bytes.subarray(from, from + piece_bytes);
        if (!(await credit.take(piece.length))) return false;
        if (ws.readyState === ws.OPEN) ws.send(frameOf('stdin', piece));
      }
      return true;
    },
    closeStdin: () => tell({ type: 'close-stdin' }),
    resize: (columns, rows) => tell({ type: 'resize', columns, rows }),
    close: () => ws.terminate(),
    ended,
  };
  ws.once('open', () => tell({ type: 'start', ...start }));
  return new Promise((resolve, reject) => {
    const fail = (error: unknown) => {
      reject(error);
      failEnd(error);
    };
    ws.on('error', (error) => (ws.readyState === ws.CONNECTING ? fail(error) : undefined));
    ws.once('unexpected-response', (_, response) => {
      readRefusal(response)
        .then(fail, fail)
        .finally(() => ws.terminate());
    });
    ws.once('close', () => {
      credit.close();
      watch();
      void printed.all().then(() => {
        reject(lostEarly());
        settleEnd({ how: 'lost' });
      });
    });
    ws.on('message', (data: Buffer, is_binary: boolean) => {
      if (is_binary) {
        const frame = readFrame(data);
        if (frame !== null && frame.channel !== 'stdin') printed.add(frame.channel, frame.bytes);
        return;
      }
      const said = JSON.parse(String(data)) as ExecTellMessage;
      if (said.type === 'started') resolve(line);
      else if (said.type === 'ack') credit.give(said.bytes);
      else if (said.type === 'error') fail(toCliError(said));
      else void printed.all().then(() => settleEnd({ ...said, how: 'exited' }));
    });
  });
}

/** Prints what comes in its order, and acknowledges it as it was taken. */
function printInOrder(print: LineOptions['print'], tell: (message: object) => void) {
  let last: Promise<void> = Promise.resolve();
  let taken = 0;
  return {
    add(channel: 'stdout' | 'stderr', bytes: Buffer) {
      last = last.then(async () => {
        await print(channel, bytes);
        taken += bytes.length;
        if (taken < exec_ack_bytes) return;
        tell({ type: 'ack', bytes: taken });
        taken = 0;
      });
    },
    all: () => last,
  };
}

/** Breaks off what has been silent for too long. Returns the undoing. */
function watchSilence(ws: WebSocket, clock: Clock): () => void {
  let cancel = () => {};
  const heard = () => {
    cancel();
    cancel = clock.after(silence_ms, () => ws.terminate());
  };
  heard();
  ws.on('ping', heard).on('message', heard);
  return () => cancel();
}

async function readRefusal(response: import('node:http').IncomingMessage): Promise<unknown> {
  const text = await readText(response);
  const status = response.statusCode ?? 0;
  try {
    readAnswer({ status, request_id: requestIdOf(response), cookies: [], text });
  } catch (error) {
    return error;
  }
  return lostEarly();
}

function lostEarly(): CliError {
  return new CliError({
    code: 'connection_lost',
    message: 'The connection broke before anything was started.',
    fix: 'bin/einsora doctor',
    exit: 'connection_lost',
  });
}

function toCliError(said: Extract<ExecTellMessage, { type: 'error' }>): CliError {
  const { code, message, fix, request_id } = said;
  const exit = code === 'stream_cut' ? 'connection_lost' : exitOfAnswer(409, code);
  return new CliError({ code, message, fix, request_id, exit });
}
