/**
 * What is known of a request while it goes on, and the record that it leaves.
 *
 * Invariants: a record has what the client got: its status and the code it was told; a request
 * without a usable key leaves none.
 */
import type { Clock } from '../lib/clock.ts';
import type { Endpoint, Replica } from './endpoint.ts';
import type { GatewayKey } from './key.ts';
import type { GatewayApi, RequestOutcome, RequestRecord, TokenUse } from './request-record.ts';
import type { StopReason } from './stop.ts';

export type Report = {
  /** When it came: wall clock, and the monotonic one's. */
  at: number;
  came_at: number;
  key: GatewayKey | null;
  api: GatewayApi | null;
  model: string;
  is_stream: boolean;
  endpoint: Endpoint | null;
  /** The one that was asked last. */
  replica: Replica | null;
  attempts: number;
  /** What went wrong, as the client is told; null: nothing. */
  code: string | null;
  /** The status says what went wrong. */
  is_refused: boolean;
  /** The gateway itself broke the connection. */
  is_broken: boolean;
  /** Of the answer, handed to the client. */
  bytes: number;
  use: TokenUse;
  asked_at: number | null;
  first_token_at: number | null;
};

const no_use: TokenUse = {
  ...{ prompt_tokens: 0, completion_tokens: 0, cached_tokens: 0, is_estimated: false },
};

export function newReport(clock: Pick<Clock, 'now' | 'monotonic'>): Report {
  return {
    at: clock.now(),
    came_at: clock.monotonic(),
    key: null,
    api: null,
    model: '',
    is_stream: false,
    endpoint: null,
    replica: null,
    attempts: 0,
    code: null,
    is_refused: false,
    is_broken: false,
    bytes: 0,
    use: no_use,
    asked_at: null,
    first_token_at: null,
  };
}

export type Ended = {
  request_id: string;
  /** Null where no head was sent. */
  status: number | null;
  reason: StopReason | null;
  now: number;
};

/** How it ended, for the log and the record. */
export function outcomeOf(report: Report, reason: StopReason | null): RequestOutcome {
  if (reason === 'client_left') return 'client_left';
  if (report.is_refused) return 'refused';
  return report.code === null ? 'answered' : 'cut';
}

/** Null where none is kept: no usable key, or nothing that an engine would answer. */
export function recordOf(report: Report, ended: Ended): RequestRecord | null {
  const { key, api, replica, endpoint, came_at, at, model, attempts, use } = report;
  if (key === null || api === null) return null;
  const since = (moment: number) => Math.round(moment - came_at);
  return {
    request_id: ended.request_id,
    at,
    key_id: key.id,
    tenant_id: key.tenant_id,
    user_id: key.user_id,
    workload_id: endpoint?.workload_id ?? null,
    run: replica?.run ?? null,
    machine_id: replica?.machine_id ?? null,
    placed_class: replica?.placed_class ?? null,
    model,
    api,
    is_stream: report.is_stream,
    outcome: outcomeOf(report, ended.reason),
    status: ended.status,
    code: ended.reason === 'client_left' ? 'client_left' : report.code,
    attempts,
    use,
    waited_ms: since(report.asked_at ?? ended.now),
    first_token_ms: report.first_token_at === null ? null : since(report.first_token_at),
    duration_ms: since(ended.now),
  };
}
