/**
 * llama-server, as of v0.4.0 and the build that the `xllamacpp` wheel carries.
 *
 * What was seen of it: the first chunk of a chat names the role alone; a stream of several prompts
 * begins with `data: null`; each choice has a usage of its own, and `timings` are told unasked. Its
 * slots are chosen by likeness, whoever asked before, so that where tenants are to be kept apart
 * nothing is reused at all.
 */
import { gatewayApis } from '../request-record.ts';
import type { EngineAdapter } from './adapter.ts';

export const llamaServer: EngineAdapter = {
  name: 'llama-server',
  apis: gatewayApis,
  model: null,
  use_of: 'choice',
  use_on_demand: { is_told_anyway: true, continuous: false },
  unstreamed_fields: [],
  lacks_places: true,
  problemWith: () => null,
  apart: () => ({ cache_prompt: false }),
};
