/**
 * Codes of where models come from: a part of the one table in ../reasons.ts.
 */
import type { Reason } from '../reasons.ts';

export const modelReasons = {
  source_refused: {
    status: 400,
    sentence: 'Nothing is fetched from {url}: {why}.',
    fix: 'give https://host/path/file.gguf or hf://owner/repo, as bin/einsora launch endpoint --help shows',
  },
  source_address_refused: {
    status: 409,
    sentence:
      '{host} leads to {address}, which is no public address, so nothing is fetched from it.',
    fix: 'where that is meant, its operator allows it: EINSORA_MODEL_ORIGINS={origin} bin/einsora up',
  },
  source_redirect_refused: {
    status: 409,
    sentence: '{host} sends on to {target}, which is not followed: {why}.',
    fix: 'see where it leads: curl -sIL {url}',
  },
  source_unreachable: {
    status: 503,
    sentence: '{host} cannot be reached: {why}.',
    fix: 'try it: curl -sI {url}, then: {again}',
  },
  source_failing: {
    status: 503,
    sentence: '{what} could not be fetched: {host} answers with status {status}.',
    fix: 'try it: curl -sI {url}, then: {again}',
  },
  source_not_found: {
    status: 409,
    sentence: '{host} has no such file ({what}).',
    fix: 'try it: curl -sI {url}',
  },
  source_access_refused: {
    status: 409,
    sentence: '{host} wants a sign-in for {what} (status {status}); only hubs are given a token.',
    fix: 'fetch it yourself, then: bin/einsora launch endpoint ./{file}',
  },
  source_size_unknown: {
    status: 409,
    sentence: '{host} does not say how long {what} is, so it is not fetched.',
    fix: 'fetch it yourself, then: bin/einsora launch endpoint ./{file}',
  },
  source_not_a_model: {
    status: 409,
    sentence: '{what} is no model file: {host} sent {kind}.',
    fix: 'open {url} in a browser: it may want you to sign in',
  },
  file_source_refused: {
    status: 409,
    sentence: 'A file of a machine can be launched by the owner of the machine alone.',
    fix: 'bin/einsora catalog, or give hf://owner/repo',
  },
  hub_unreachable: {
    status: 503,
    sentence: 'The hub {host} cannot be reached: {why}.',
    fix: 'try it: curl -sI {url}, then: {again}',
  },
  hub_failing: {
    status: 503,
    sentence: 'The hub {host} answers with status {status}.',
    fix: 'wait a few minutes, then: {again}',
  },
  hub_rate_limited: {
    status: 429,
    sentence: 'The hub {host} has had too many requests from here and asks to wait {wait}.',
    fix: 'ask as a user, who may ask more: bin/einsora secrets set hf-token',
  },
  hub_token_refused: {
    status: 409,
    sentence: 'The hub {host} does not accept the token hf-token.',
    fix: 'bin/einsora secrets set hf-token',
  },
  hub_gated: {
    status: 409,
    sentence: '{repo} is gated: its publisher asks each user to accept terms first.',
    fix: 'accept them at {page}, then: bin/einsora secrets set hf-token',
  },
  hub_repo_not_found: {
    status: 409,
    sentence: 'The hub {host} has no {repo}, or it is private.',
    fix: 'check the name; for a private one: bin/einsora secrets set hf-token',
  },
  hub_revision_not_found: {
    status: 409,
    sentence: '{repo} has no revision {revision}.',
    fix: 'take its newest: bin/einsora launch endpoint hf://{repo}',
  },
  hub_file_not_found: {
    status: 409,
    sentence: '{repo} has no {file}. It has: {choices}.',
    fix: 'bin/einsora launch endpoint {example}',
  },
  hub_repo_disabled: {
    status: 409,
    sentence: 'The hub {host} has disabled {repo}.',
    fix: 'see why at {page}; others: bin/einsora catalog',
  },
  hub_answer_invalid: {
    status: 503,
    sentence: 'The hub {host} answered with what cannot be used: {why}.',
    fix: 'is it a hub? EINSORA_HUB_URL={hub} bin/einsora up',
  },
  model_choice_needed: {
    status: 409,
    sentence: '{repo} has {count} models to choose from: {choices}.',
    fix: 'bin/einsora launch endpoint {example}',
  },
  model_files_missing: {
    status: 409,
    sentence: '{repo} has no model file that is safe to load: {why}.',
    fix: 'look for one with GGUF in its name: {page}',
  },
  model_file_unsafe: {
    status: 409,
    sentence: '{file} is of a kind that can run code when it is loaded, so it is never fetched.',
    fix: 'choose a GGUF: bin/einsora launch endpoint hf://{repo}',
  },
  model_parts_missing: {
    status: 409,
    sentence: '{file} comes in {count} parts and not all are there: {missing}.',
    fix: 'choose another: bin/einsora launch endpoint hf://{repo}',
  },
  model_corrupt: {
    status: 409,
    sentence: '{what} arrived with another checksum than its publisher gives, and was thrown away.',
    fix: 'check who answers for {host} on this network, then: {again}',
  },
  download_stalled: {
    status: 409,
    sentence: '{what} stopped arriving at {done} of {total}, {tries} times.',
    fix: 'check the network; it goes on from there with: {again}',
  },
  no_engine_for_format: {
    status: 409,
    sentence: '{model} is in {format}, which the engine that would run it does not read.',
    fix: 'look for a GGUF of it: {page}; safetensors are read on NVIDIA GPUs: --image einsora-vllm',
  },
  model_in_use: {
    status: 409,
    sentence: '{source} is in use by {users}.',
    fix: 'bin/einsora stop {users}',
  },
} as const satisfies Record<string, Reason>;
