import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readSpec } from './workload.ts';

test('a spec that was stored before images were reads as one without them', () => {
  const old = { kind: 'endpoint', name: 'chat', region: 'local', model: 'smollm2-135m' };
  const spec = readSpec(JSON.stringify(old));
  assert.deepEqual(
    [spec.image_id, spec.command, spec.env, spec.ssh_public_key, spec.idle_policy],
    [null, [], {}, null, null],
  );
  assert.equal(spec.model, 'smollm2-135m');
  const env = { A: 'b' };
  assert.deepEqual(readSpec(JSON.stringify({ ...old, env })).env, env);
});
