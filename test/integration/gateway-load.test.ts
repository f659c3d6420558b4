/**
 * The whole program and the real llama.cpp under what is too much: two hundred keys on one slot, a
 * prompt of megabytes, a key that is revoked in mid-answer.
 */
import assert from 'node:assert/strict';
import { Agent } from 'node:http';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { systemClock } from '../../src/lib/clock.ts';
import { launch } from '../lib/bad-day.ts';
import { askOnce } from '../lib/chaos-client.ts';
import { writeKnownAnswerModel, writeSlowModel } from '../lib/known-answer.ts';
import { needs } from '../lib/parts.ts';
import { cleanUp, type Program, startProgram, temporaryFolder } from '../lib/program.ts';

const real = { ...needs('llama', 'bwrap', 'cgroup'), timeout: 240_000 };
const data_dir = temporaryFolder();
const endpoints = new Map<string, { id: string; key: string }>();
const agent = new Agent({ keepAlive: true });
let sentence = '';
let program: Program | null = null;

before(async () => {
  if (real.skip !== false) return;
  program = await startProgram({ data_dir, args: ['--offer-cpu', '2'] });
  ({ sentence } = writeKnownAnswerModel(join(data_dir, 'known.gguf')));
  writeSlowModel(join(data_dir, 'slow.gguf'));
  for (const name of ['known', 'slow']) {
    const path = join(data_dir, `${name}.gguf`);
    const { code, document } = await launch(program, path, '--parallel', '1');
    assert.equal(code, 0, JSON.stringify(document.error));
    endpoints.set(name, { id: document.workload.id, key: document.key ?? '' });
  }
});
after(async () => {
  agent.destroy();
  await cleanUp(data_dir, program);
});

function running(): Program {
  assert.ok(program !== null);
  return program;
}

function endpoint(name: string) {
  const found = endpoints.get(name);
  assert.ok(found !== undefined);
  return found;
}

async function newKey(name: string): Promise<{ id: string; key: string }> {
  const path = `/v1/workloads/${endpoint(name).id}/keys`;
  const made = await running().api<{ id: string; key: string }>(path, { body: {} });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return made.body;
}

function post(key: string, body: Record<string, unknown> | string): Promise<Response> {
  return fetch(`${running().url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
}

test('two hundred keys share one slot, and each gets the whole answer', real, async () => {
  const keys: string[] = [];
  for (let count = 0; count < 200; count += 1) keys.push((await newKey('known')).key);
  const messages = [{ role: 'user', content: 'Who runs you?' }];
  const told = await Promise.all(
    keys.map((key, at) =>
      askOnce({
        ...{ url: running().url, key, agent, kind: at % 2 === 0 ? 'stream' : 'whole' },
        ...{ body: { model: 'known', messages }, expected: sentence },
      }),
    ),
  );
  const wrong = told.filter(({ outcome }) => outcome !== 'answered');
  assert.deepEqual(wrong, []);
});

test('a prompt of megabytes is told to be too long, and holds nobody up', real, async () => {
  const { key } = endpoint('known');
  const messages = [{ role: 'user', content: 'word '.repeat(1_600_000) }];
  const giant = post(key, { model: 'known', messages });
  const short = { model: 'known', messages: [{ role: 'user', content: 'Who?' }] };
  const other = await post(endpoint('slow').key, { ...short, model: 'slow', max_tokens: 2 });
  assert.equal(other.status, 200);
  const answer = await giant;
  const { error } = (await answer.json()) as { error: { code: string } };
  assert.deepEqual([answer.status, error.code], [400, 'context_length_exceeded']);
  const larger = await post(key, JSON.stringify({ ...short, user: 'x'.repeat(17 * 2 ** 20) }));
  assert.equal(larger.status, 413);
  const after = await post(key, short);
  assert.equal(after.status, 200, await after.text());
});

test(
  'a key that is revoked in mid-answer takes the answer along within a second',
  real,
  async () => {
    const { id, key } = await newKey('slow');
    const messages = [{ role: 'user', content: 'Go on.' }];
    const answer = await post(key, { model: 'slow', messages, stream: true, max_tokens: 1900 });
    assert.ok(answer.status === 200 && answer.body !== null);
    const reader = answer.body.getReader();
    let text = Buffer.from((await reader.read()).value ?? []).toString();
    const path = `/v1/workloads/${endpoint('slow').id}/keys/${id}`;
    const revoked = await running().api(path, { method: 'DELETE' });
    assert.equal(revoked.status, 204);
    const revoked_at = systemClock.monotonic();
    await assert.rejects(async () => {
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        text += Buffer.from(part.value).toString();
      }
    }, 'the connection breaks');
    assert.ok(systemClock.monotonic() - revoked_at < 3000);
    const last = text.trim().split('\n\n').at(-1) ?? '';
    assert.match(last, /^data: \{"error":\{/);
    assert.doesNotMatch(text, /\[DONE\]/);
    const again = await post(key, { model: 'slow', messages });
    assert.equal(again.status, 401);
  },
);
