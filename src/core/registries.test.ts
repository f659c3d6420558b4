import assert from 'node:assert/strict';
import { test } from 'node:test';
import { secretNameSchema } from '../contract/secrets.ts';
import { registryOf, registrySecret } from './registries.ts';

test('a name leads to the registry that it begins with, and to the usual one without', () => {
  assert.equal(registryOf('debian'), 'docker.io');
  assert.equal(registryOf('someone/image:1'), 'docker.io');
  assert.equal(registryOf('ghcr.io/someone/image@sha256:00'), 'ghcr.io');
  assert.equal(registryOf('127.0.0.1:5000/image'), '127.0.0.1:5000');
  assert.equal(registryOf('localhost/einsora/vllm:1'), 'localhost');
});

test('each registry has a secret of its own, by a name that a secret can have', () => {
  assert.equal(registrySecret('ghcr.io'), 'registry-ghcr-io');
  assert.equal(registrySecret('127.0.0.1:5000'), 'registry-127-0-0-1-5000');
  for (const host of ['docker.io', 'Harbor.Example.org:443', `${'a'.repeat(80)}.example`]) {
    assert.equal(secretNameSchema.safeParse(registrySecret(host)).success, true, host);
  }
});
