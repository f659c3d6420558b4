import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { models } from '../core/catalog.ts';
import { systemClock } from '../lib/clock.ts';
import { exec } from '../lib/exec.ts';
import { systemRandom } from '../lib/random.ts';
import { builtinModels } from './builtin.ts';
import { type ModelSourceOptions, missingBytes, resolveModel } from './source.ts';

function folder() {
  const root = mkdtempSync(join(tmpdir(), 'einsora-model-'));
  return { root, [Symbol.dispose]: () => rmSync(root, { recursive: true, force: true }) };
}

function options(root: string): ModelSourceOptions {
  return {
    models_folder: join(root, 'models'),
    platform: 'linux-x64',
    env: { PATH: '/nowhere' },
    clock: systemClock,
    random: systemRandom,
    signal: new AbortController().signal,
  };
}

async function whyRefused(path: string, root: string): Promise<unknown> {
  const result = await resolveModel(path, options(root));
  assert.ok(!result.ok);
  assert.equal(result.code, 'model_file_unreadable');
  assert.equal(result.details.path, path);
  return result.details.why;
}

test('every model of the catalog has its wheel, and its bytes fit in it', () => {
  assert.deepEqual(
    builtinModels.map((model) => model.name),
    models.map((model) => model.name),
  );
  for (const [index, model] of models.entries()) {
    const build = builtinModels[index]?.pin.builds.any;
    const beside = (build?.unpacked_bytes ?? 0) - model.file_bytes;
    assert.ok(beside > 0 && beside < 100_000, model.name);
  }
});

test('a file is resolved through its links and keeps the name of the real one', async () => {
  using at = folder();
  mkdirSync(join(at.root, 'real'));
  const real = join(at.root, 'real', 'mine.GGUF');
  writeFileSync(real, 'GGUF');
  symlinkSync('real', join(at.root, 'link'));
  const result = await resolveModel(`file://${at.root}/link/mine.GGUF`, options(at.root));
  assert.deepEqual(result, { ok: true, path: real, name: 'mine' });
});

test('what is no regular file is refused without waiting for it', async () => {
  using at = folder();
  const pipe = join(at.root, 'pipe');
  assert.equal((await exec('mkfifo', [pipe], { timeout_ms: 5000 })).code, 0);
  const socket = join(at.root, 'socket');
  const server = createServer().listen(socket);
  await new Promise((resolve) => server.once('listening', resolve));
  symlinkSync('loop', join(at.root, 'loop'));
  try {
    for (const path of [pipe, socket, '/dev/null', '/dev/zero', at.root]) {
      assert.equal(await whyRefused(path, at.root), 'it is no regular file', path);
    }
  } finally {
    server.close();
  }
  assert.equal(await whyRefused(join(at.root, 'none'), at.root), 'there is no such file');
  assert.equal(await whyRefused(`${pipe}/below`, at.root), 'there is no such file');
  assert.equal(await whyRefused(join(at.root, 'loop'), at.root), 'its links lead in a circle');
});

const as_user = { skip: process.getuid?.() === 0 && 'root may read everything' };
test('a file without permission is refused', as_user, async () => {
  using at = folder();
  const path = join(at.root, 'closed.gguf');
  writeFileSync(path, 'GGUF');
  chmodSync(path, 0);
  assert.equal(await whyRefused(path, at.root), 'permission denied');
});

test('other sources, unknown names and a missing Python are told by their codes', async () => {
  using at = folder();
  const code = async (model: string) => {
    const result = await resolveModel(model, options(at.root));
    return result.ok ? null : [result.code, result.details];
  };
  assert.deepEqual(await code('hf://a/b'), ['model_source_unsupported', { scheme: 'hf' }]);
  assert.deepEqual(await code('nope'), ['unknown_model', { model: 'nope' }]);
  assert.equal((await code('smollm2-135m'))?.[0], 'python_missing');
  assert.equal(missingBytes('smollm2-135m', options(at.root)), 92_871_040);
  assert.equal(missingBytes('/a.gguf', options(at.root)), null);
});
