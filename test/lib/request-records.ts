/**
 * Records of the gateway's requests, for tests.
 */
import type { RequestRecord } from '../../src/gateway/request-record.ts';
import type { RequestRow } from '../../src/store/requests.ts';

/** A whole answer of the endpoint `smol`, but for what is given. */
export function requestRecord(more: Partial<RequestRecord> = {}): RequestRecord {
  return {
    ...{ request_id: 'r', at: 1_700_000_000_000, key_id: 'k1', tenant_id: 't1', user_id: 'u1' },
    ...{ workload_id: 'w1', run: { workload_id: 'w1', replica: 0, run_epoch: 1 } },
    ...{ machine_id: 'm1', placed_class: 'cpu-1', model: 'smol', api: 'chat', is_stream: true },
    ...{ outcome: 'answered', status: 200, code: null, attempts: 1 },
    use: { prompt_tokens: 7, completion_tokens: 5, cached_tokens: 2, is_estimated: false },
    ...{ waited_ms: 1, first_token_ms: 40, duration_ms: 90 },
    ...more,
  };
}

/** A row as the store has it, of the forty-first day, but for what is given. */
export const requestRow = (number: number, more: Partial<RequestRow> = {}): RequestRow => ({
  ...{
    request_id: String(number).padStart(26, '0'),
    at: 40 * 24 * 3600_000,
    key_id: 'k1',
    tenant_id: 't1',
  },
  ...{ user_id: 'u1', workload_id: 'w1', replica: 0, run_epoch: 1, machine_id: 'm1' },
  ...{ placed_class: 'cpu-1', model: 'smol', api: 'chat', is_stream: 1, outcome: 'answered' },
  ...{ status: 200, code: null, attempts: 1, prompt_tokens: 7, completion_tokens: 5 },
  ...{ cached_tokens: 2, is_estimated: 0, waited_ms: 1, first_token_ms: 40, duration_ms: 90 },
  ...more,
});
