/**
 * Where workloads run, as the control plane sees it: streams to runs and their output.
 *
 * Contract: `dial` opens a byte stream to a named port of a run or rejects with an EinsoraError;
 * `logs` answers from a byte offset (negative counts from the end);
 * `exec`, `files` and `connect` (to a TCP port inside) are the driver's, by way of whatever lies
 * between.
 */
import type { Duplex } from 'node:stream';
import type { RunKey } from '../core/run.ts';
import type { ExecAsk, ExecSession, RunFiles } from '../lib/session.ts';

export type LogChunk = { text: string; next_offset: number; end: boolean };

export type Backend = {
  dial(machine_id: string, run: RunKey, port_name: string): Promise<Duplex>;
  logs(machine_id: string, run: RunKey, offset: number, limit: number): Promise<LogChunk>;
  exec(machine_id: string, run: RunKey, ask: ExecAsk, signal: AbortSignal): Promise<ExecSession>;
  files(machine_id: string, run: RunKey): Promise<RunFiles>;
  connect(machine_id: string, run: RunKey, tcp_port: number): Promise<Duplex>;
};
