/**
 * Input of requests: what counts as JSON, which header is asked for, and what is told of the first
 * thing that does not fit.
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { ask, createRig, type Rig } from '../../test/lib/rig.ts';
import { routes } from '../contract/routes.ts';

const rig = {} as Rig;
before(async () => void Object.assign(rig, await createRig()));

const not_json = 'the body is not JSON, or not said to be';

async function problemOf(body: string | undefined, type?: string): Promise<unknown> {
  const headers: Record<string, string> = type === undefined ? {} : { 'content-type': type };
  const how = body === undefined ? { headers } : { body, headers };
  const answer = await ask(rig, 'POST', '/v1/plan', how);
  return answer.status === 200 ? null : answer.body.error?.details.problem;
}

test('a body is JSON and said to be, in any of the ways to say so', async () => {
  const plan = JSON.stringify({ kind: 'endpoint', model: 'smollm2-135m' });
  for (const type of [
    'application/json',
    'Application/JSON; charset=utf-8',
    'application/a+json',
  ]) {
    assert.equal(await problemOf(plan, type), null, type);
  }
  for (const type of ['', 'text/plain', 'application/jsonx', 'multipart/form-data; boundary=x']) {
    assert.equal(await problemOf(plan, type), not_json, type);
  }
  for (const text of ['', '{', '{"kind":']) assert.equal(await problemOf(text), not_json, text);
});

test('what does not fit is told by its name, the first of all', async () => {
  const first = await problemOf('{"kind":"endpoint","name":5,"gpu_count":"many"}');
  assert.match(String(first), /^name: /);
  assert.match(String(await problemOf('{}')), /^kind: /);
  assert.match(String(await problemOf(undefined)), /^kind: /);
  const answer = await ask(rig, 'GET', '/v1/workloads?limit=1&limit=2');
  assert.match(String(answer.body.error?.details.problem), /^limit: /);
});

test('a header that a route takes is checked however it is written, others are let be', async () => {
  const headers = { 'Idempotency-Key': 'k'.repeat(1000), 'x-other': 'anything' };
  const body = { kind: 'endpoint', model: 'smollm2-135m' };
  const answer = await ask(rig, 'POST', '/v1/workloads', { body, headers });
  assert.match(String(answer.body.error?.details.problem), /^idempotency-key: /);
});

test('no two routes take one path, for each would check it', () => {
  const paths = Object.values(routes).map(({ method, path }) => [method, ...path.split('/')]);
  const meet = (one: string[], other: string[]) =>
    one.length === other.length &&
    one.every((part, at) => {
      const beside = other[at] ?? '';
      return part === beside || part.startsWith('{') || beside.startsWith('{');
    });
  const pairs = paths.flatMap((one, at) => paths.slice(at + 1).filter((other) => meet(one, other)));
  assert.deepEqual(pairs, []);
});
