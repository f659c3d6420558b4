/**
 * Which models an engine is asked to read: safetensors vLLM alone, GGUF all others.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EinsoraError } from '../contract/errors.ts';
import type { Launch } from '../contract/workloads.ts';
import type { ApiDeps } from './api-deps.ts';
import { lookModel } from './launch-model.ts';
import type { RemoteModel } from './model-sources.ts';

async function asked(format: RemoteModel['format'], more: Partial<Launch>): Promise<string> {
  const remote = { source: 'hf://o/r@0', format, repo: 'o/r', bytes: 1 };
  const deps = { models: { look: async () => remote }, hub_url: 'https://hub.example' };
  const launch: Launch = { kind: 'endpoint', model: 'hf://o/r', ...more };
  try {
    await lookModel(deps as unknown as ApiDeps, 'mine', launch);
    return 'accepted';
  } catch (error) {
    assert.ok(error instanceof EinsoraError);
    return error.code;
  }
}

test('a model in a format that its engine does not read is refused before it is fetched', async () => {
  assert.equal(await asked('gguf', {}), 'accepted');
  assert.equal(await asked('gguf', { image_id: 'llama-cpp-cuda' }), 'accepted');
  assert.equal(await asked('gguf', { image_id: 'einsora-vllm' }), 'no_engine_for_format');
  assert.equal(await asked('safetensors', {}), 'no_engine_for_format');
  assert.equal(await asked('safetensors', { image_id: 'llama-cpp-cuda' }), 'no_engine_for_format');
  assert.equal(await asked('safetensors', { image_id: 'einsora-vllm' }), 'accepted');
});
