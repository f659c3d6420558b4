/**
 * mlx_lm.server, as of 0.32.
 *
 * What was seen of it: a `model` other than `default_model` is loaded, from the hub if need be; its
 * streams carry no logprobs; comments come while it reads the prompt; stream options without
 * `include_usage` cut its stream; a list of prompts ends the thread that answers, for everybody and
 * for good; of `n` choices it gives one. It has one cache for all prompts and no field to keep them
 * apart, so that one which several tenants may prompt has to be started without
 * (`--prompt-cache-size 0`).
 */
import type { Fields } from '../whole/fields.ts';
import type { EngineAdapter } from './adapter.ts';

export const mlx: EngineAdapter = {
  name: 'mlx',
  apis: ['chat', 'completions'],
  model: 'default_model',
  use_of: 'answer',
  use_on_demand: { is_told_anyway: false, continuous: false },
  unstreamed_fields: ['logprobs', 'top_logprobs'],
  lacks_places: false,
  problemWith({ prompt, n }: Fields) {
    if (prompt !== undefined && typeof prompt !== 'string') {
      return { param: 'prompt', problem: 'takes one prompt, as a text' };
    }
    if (n !== undefined && n !== null && n !== 1) {
      return { param: 'n', problem: 'gives one choice' };
    }
    return null;
  },
  apart: () => ({}),
};
