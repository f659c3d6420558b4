/**
 * What is kept of one request: who asked which model, who answered, how it ended, what it used.
 *
 * Invariants: exactly one for each request that had a usable key, whatever its ending; never a
 * prompt, an answer or a key.
 */
import type { RunKey } from '../core/run.ts';

export const gatewayApis = ['chat', 'completions', 'responses', 'embeddings', 'rerank'] as const;
export type GatewayApi = (typeof gatewayApis)[number];

/** OpenAI's path of each: ours, and that of every engine. */
export const api_paths: Readonly<Record<GatewayApi, string>> = {
  chat: '/v1/chat/completions',
  completions: '/v1/completions',
  responses: '/v1/responses',
  embeddings: '/v1/embeddings',
  rerank: '/v1/rerank',
};

/**
 * answered: whole, with the engine's own end; refused: an exact status before anything was sent;
 * cut: it broke after the client had part of it, and the client was told; client_left: the client
 * went first.
 */
export const requestOutcomes = ['answered', 'refused', 'cut', 'client_left'] as const;
export type RequestOutcome = (typeof requestOutcomes)[number];

/** Tokens; of what is estimated, within one chunk. */
export type TokenUse = {
  prompt_tokens: number;
  completion_tokens: number;
  /** Of the prompt, those that the engine had already. */
  cached_tokens: number;
  is_estimated: boolean;
};

export type RequestRecord = {
  /** What it is known by: the id in X-Request-ID. */
  request_id: string;
  /** Wall clock, milliseconds since 1970, when it came. */
  at: number;
  key_id: string;
  /** Whose key it was: tenant and user; no user where it was a run's key. */
  tenant_id: string;
  user_id: string | null;
  /** The endpoint and the run that answered last; null where it came to none. */
  workload_id: string | null;
  run: RunKey | null;
  machine_id: string | null;
  placed_class: string | null;
  /** As asked. */
  model: string;
  api: GatewayApi;
  is_stream: boolean;
  outcome: RequestOutcome;
  /** HTTP status that the client got; null where it left before one. */
  status: number | null;
  /** Code of what went wrong, as the client got it. */
  code: string | null;
  /** How many engines were asked. */
  attempts: number;
  use: TokenUse;
  /** From its coming: until an engine was asked, until first content, until the end. */
  waited_ms: number;
  first_token_ms: number | null;
  duration_ms: number;
};
