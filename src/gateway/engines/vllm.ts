/**
 * vLLM's OpenAI server.
 *
 * What it documents: usage so far with each chunk, where asked (`continuous_usage_stats`); no
 * stream of a beam search or of the logprobs of a prompt; a salt that keeps the beginnings of
 * prompts apart.
 */
import { gatewayApis } from '../request-record.ts';
import type { EngineAdapter } from './adapter.ts';

export const vllm: EngineAdapter = {
  name: 'vllm',
  apis: gatewayApis,
  model: null,
  use_of: 'answer',
  use_on_demand: { is_told_anyway: false, continuous: true },
  unstreamed_fields: ['use_beam_search', 'prompt_logprobs'],
  lacks_places: false,
  problemWith: () => null,
  apart: (cache_salt) => ({ cache_salt }),
};
