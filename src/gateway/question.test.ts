/**
 * What an engine is asked, of what a client sent.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bodyForEngine, type Question } from './question.ts';

const asked = (fields: Record<string, unknown>): Question => ({
  fields: { model: 'acme/chat', messages: [], ...fields },
  model: 'acme/chat',
  stream: false,
});
function bodyOf(question: Question, apart: { salt: string } | null): Record<string, unknown> {
  const body = bodyForEngine(question, 'chat', apart);
  assert.ok(body.ok);
  return JSON.parse(body.value.toString('utf8'));
}

test('an engine of one tenant may use what it remembers as the client says', () => {
  const body = bodyOf(asked({ cache_prompt: true, temperature: 0 }), null);
  assert.deepEqual(body, { model: 'chat', messages: [], cache_prompt: true, temperature: 0 });
});

test('where several tenants prompt an engine none is given what it remembers', () => {
  const greedy = { cache_prompt: true, cache_salt: 'of another', n_cache_reuse: 1, id_slot: 0 };
  const body = bodyOf(asked({ ...greedy, temperature: 0 }), { salt: 'mine' });
  const rest = { model: 'chat', messages: [], temperature: 0 };
  assert.deepEqual(body, { ...rest, cache_prompt: false, cache_salt: 'mine' });
});
