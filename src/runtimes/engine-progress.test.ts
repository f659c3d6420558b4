import assert from 'node:assert/strict';
import { test } from 'node:test';
import { progressIn } from './engine-progress.ts';

test('llama-server tells its steps and what it works on or keeps waiting', () => {
  const text = `# HELP llamacpp:n_decode_total Total number of llama_decode() calls
# TYPE llamacpp:n_decode_total counter
llamacpp:n_decode_total 42
llamacpp:requests_processing 1
llamacpp:requests_deferred 2
llamacpp:tokens_predicted_total 9`;
  assert.deepEqual(progressIn(text), { steps: 42, open: 3 });
});

test('vLLM tells them with labels, for each of its engines', () => {
  const text = `vllm:num_requests_running{engine="0",model_name="a b"} 2.0
vllm:num_requests_waiting{engine="0",model_name="a b"} 1.0
vllm:prompt_tokens_total{engine="0",model_name="a b"} 10.0
vllm:generation_tokens_total{engine="0",model_name="a b"} 5.0
vllm:generation_tokens_total{engine="1",model_name="a b"} 1e3
vllm:iteration_tokens_total_bucket{engine="0",le="1.0"} 70.0
vllm:iteration_tokens_total_count{engine="0"} 7.0`;
  assert.deepEqual(progressIn(text), { steps: 1022, open: 3 });
});

test('a page without these counters says nothing', () => {
  assert.equal(progressIn(''), null);
  assert.equal(progressIn('{"error":"no such path"}'), null);
  assert.equal(progressIn('llamacpp:n_decode_total NaN'), null);
});
