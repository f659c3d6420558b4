/**
 * A limit on everything that comes from outside, in one place.
 */
export const limits = {
  api_body_bytes: 256 * 1024,
  gateway_body_bytes: 16 * 1024 * 1024,
  header_bytes: 16 * 1024,
  page_rows: 200,
  name_chars: 63,
  model_chars: 1024,
  idempotency_key_chars: 255,
  idempotency_kept_ms: 24 * 3600_000,
  log_chunk_bytes: 256 * 1024,
  log_tail_bytes: 4 * 1024,
  sign_in_link_ms: 10 * 60_000,
  session_ms: 7 * 24 * 3600_000,
  session_idle_ms: 12 * 3600_000,
  sign_in_attempts_per_minute: 200,
  requests_at_once: 512,
  sync_hold_ms: 20_000,
  machine_lease_ms: 60_000,
  run_attempts: 3,
  stage_silence_ms: 120_000,
  request_headers_ms: 15_000,
} as const;
