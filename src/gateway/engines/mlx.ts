/**
 * mlx_lm.server, as of 0.32.
 *
 * What its source says: a `model` other than `default_model` is loaded, from the hub if need be;
 * its streams carry no logprobs; comments come while it reads the prompt; it fails on stream
 * options without `include_usage`. It has one cache for all prompts and no field to keep them
 * apart, so that one which several tenants may prompt has to be started without
 * (`--prompt-cache-size 0`).
 */
import type { EngineAdapter } from './adapter.ts';

export const mlx: EngineAdapter = {
  name: 'mlx',
  paths: { chat: '/v1/chat/completions', completions: '/v1/completions' },
  model: 'default_model',
  use_of: 'answer',
  use_on_demand: { is_told_anyway: false, continuous: false },
  unstreamed_fields: ['logprobs', 'top_logprobs'],
  apart: () => ({}),
};
