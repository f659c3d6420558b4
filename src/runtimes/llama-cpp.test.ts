import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Bench, fakePython, makeBench } from '../../test/lib/wheel-bench.ts';
import { engineCommand } from './llama-cpp/command.ts';
import { settingsFor } from './llama-cpp/settings.ts';
import { pythonFiles } from './llama-cpp/system-files.ts';
import { wheelEngine } from './llama-cpp/wheel-engine.ts';
import { createLlamaCpp, type LlamaCppOptions } from './llama-cpp.ts';
import type { EngineOrder } from './runtime.ts';

const pin = {
  name: 'xllamacpp',
  version: '1.0',
  builds: { 'linux-x64': { sha256: 'ab'.repeat(32), bytes: 1000, unpacked_bytes: 3000 } },
};

function runtimeOf(bench: Bench, more: Partial<LlamaCppOptions> = {}) {
  const { clock, random, platform } = bench.options(pin);
  const env = { PATH: bench.bin };
  return createLlamaCpp({
    ...{ clock, random, platform, env, pin, tools_folder: bench.folder },
    ...more,
  });
}

const order: EngineOrder = {
  spec: {
    kind: 'endpoint',
    name: 'mine',
    model: 'smollm2-135m',
    context_length: null,
    parallel: null,
    cpu_millis: 2000,
    memory_bytes: 4 * 2 ** 30,
  },
  model_path: '/models/m.gguf',
  model_bytes: 98_362_432,
  trained_context: 2048,
};

/** A help text in the manner of llama-server. */
function help(...lines: string[]): string {
  const text = ['-c, --ctx-size N   size of the context', ...lines].join('\n');
  return `[ "$1" = --version ] && echo "version: 4321 (abc)" >&2 || cat_help() { :; }
case "$1" in --help) echo '${text}';; esac`;
}

const with_socket = '--host HOST   address, or a Unix socket if it ends with .sock';

test('a llama-server of the PATH that can listen on a Unix socket is the engine', async () => {
  using bench = makeBench();
  bench.script('llama-server', help(with_socket, '--no-webui   off', '--cache-ram N   MiB'));
  const found = await runtimeOf(bench).find();
  const program = join(bench.bin, 'llama-server');
  assert.deepEqual(found, {
    ok: true,
    engine: {
      label: `llama-server 4321 at ${program}`,
      dialect: 'llama-server',
      program: [program],
      mounts: [{ source: bench.bin, target: bench.bin, writable: false }],
      flags: ['--cache-ram', '--no-webui'],
    },
  });
});

test('a llama-server without Unix sockets is passed over for the wheel', async () => {
  using bench = makeBench();
  bench.script('llama-server', help('--host HOST   address'));
  bench.script('python3', fakePython([3, 11, 2], '/usr/bin/python3.11', '/usr'));
  assert.deepEqual(await runtimeOf(bench).find(), {
    ok: false,
    code: 'engine_missing',
    details: { why: 'it is not installed yet' },
    installable: true,
    download_bytes: 1000,
  });
});

test("a llama-server whose folder holds Einsora's own is passed over", async () => {
  using bench = makeBench();
  bench.script('llama-server', help(with_socket));
  const found = await runtimeOf(bench, { tools_folder: join(bench.bin, 'data') }).find();
  assert.equal(found.ok, false);
});

test('without Python the engine cannot be brought, unless uv can fetch one', async () => {
  using bench = makeBench();
  const found = await runtimeOf(bench).find();
  assert.deepEqual(found, {
    ok: false,
    code: 'python_missing',
    details: {},
    installable: false,
    download_bytes: 1000,
  });
  bench.script('uv', 'exit 2');
  const with_uv = await runtimeOf(bench).find();
  assert.ok(!with_uv.ok && with_uv.installable && with_uv.code === 'engine_missing');
});

test('on a machine without a build, what is wrong with its own llama-server is said', async () => {
  using bench = makeBench();
  bench.script('llama-server', help('--host HOST   address'));
  const found = await runtimeOf(bench, { platform: 'linux-riscv64' }).find();
  assert.ok(!found.ok && !found.installable);
  assert.equal(found.details.why, 'it cannot listen on a Unix socket');
});

test('the command of the wheel is this', () => {
  const python = {
    command: '/usr/bin/python3',
    executable: '/usr/bin/python3.11',
    prefix: '/usr',
    version: '3.11.2',
  };
  const engine = wheelEngine(python, '/tools/xllamacpp-1.0', pin, '/app/serve.py');
  assert.deepEqual(engineCommand(engine, order), {
    argv: [
      ...['/usr/bin/python3.11', '-I', '-S', '-B', '/opt/einsora/serve.py'],
      '/opt/einsora/engine',
      '{"model":"/model/model.gguf","socket":"/run/einsora/api.sock","alias":"mine",' +
        '"context_tokens":4096,"parallel":2,"threads":2,"http_threads":34,"prompt_cache_mib":888,' +
        '"pooling":null}',
    ],
    env: { HOME: '/tmp', LC_ALL: 'C', PATH: '/usr/bin:/bin' },
    mounts: [
      { source: '/tools/xllamacpp-1.0', target: '/opt/einsora/engine', writable: false },
      { source: '/app/serve.py', target: '/opt/einsora/serve.py', writable: false },
      { source: '/models/m.gguf', target: '/model/model.gguf', writable: false },
    ],
    ports: ['api'],
    notes: [
      'xllamacpp 1.0, Python 3.11.2',
      '2 answers at once, 2048 tokens of context each',
      '2 threads of the CPU',
      '888 MiB for remembered prompts',
    ],
  });
});

test('the command of llama-server has of the newer settings those that it knows', () => {
  const engine = {
    label: 'llama-server 1',
    dialect: 'llama-server' as const,
    program: ['/usr/bin/llama-server'],
    mounts: [],
    flags: ['--cache-ram', '--no-ui', '--no-webui', '--cors-origins', '--jinja'],
  };
  const command = engineCommand(engine, order);
  assert.equal(
    command.argv.join(' '),
    '/usr/bin/llama-server --model /model/model.gguf --host /run/einsora/api.sock --alias mine ' +
      '--ctx-size 4096 --parallel 2 --threads 2 --gpu-layers 0 ' +
      '--cache-ram 888 --no-ui --cors-origins localhost --jinja',
  );
});

test('the parts of a split model are shown beside each other, under their own names', () => {
  const engine = {
    label: 'x',
    dialect: 'llama-server' as const,
    program: ['x'],
    mounts: [],
    flags: [],
  };
  const part = (number: number) => `/models/m-0000${number}-of-00002.gguf`;
  const split = { ...order, model_path: part(1), model_parts: [part(2)] };
  const { argv, mounts } = engineCommand(engine, split);
  assert.equal(argv[2], '/model/m-00001-of-00002.gguf');
  assert.deepEqual(mounts, [
    { source: part(1), target: '/model/m-00001-of-00002.gguf', writable: false },
    { source: part(2), target: '/model/m-00002-of-00002.gguf', writable: false },
  ]);
});

test('settings follow what was asked, and stay inside the memory cap', () => {
  const asked = (more: Partial<EngineOrder['spec']>, trained: number | null = null) =>
    settingsFor({ ...order, spec: { ...order.spec, ...more }, trained_context: trained });
  assert.equal(asked({ cpu_millis: 250 }).threads, 1);
  assert.equal(asked({ cpu_millis: 3900 }).threads, 3);
  assert.equal(asked({}).context_tokens, 4096);
  assert.equal(asked({}, 512).context_tokens, 1024);
  assert.equal(asked({ context_length: 8192, parallel: 4 }, 512).context_tokens, 32_768);
  assert.equal(asked({ memory_bytes: 512 * 2 ** 20 }).prompt_cache_mib, 0);
  assert.equal(asked({ memory_bytes: 64 * 2 ** 30 }).prompt_cache_mib, 1024);
});

test('of a Python only the interpreter and its libraries are shown, of a linked tree all', () => {
  const at = (executable: string, prefix: string) =>
    pythonFiles({ command: '', version: '3.12.0', executable, prefix }).map((file) => file.source);
  assert.deepEqual(at('/usr/bin/python3.12', '/usr'), []);
  assert.deepEqual(at('/usr/local/bin/python3.12', '/usr/local'), []);
  assert.deepEqual(at('/home/me/py/bin/python3.12', '/home/me/py'), ['/home/me/py/bin/python3.12']);
  assert.deepEqual(at('/nix/store/abc/bin/python3.12', '/nix/store/abc'), ['/nix/store']);
});

test('a model for embeddings is served as one, each text as one batch', () => {
  const engine = {
    ...{ label: 'x', dialect: 'llama-server' as const, program: ['x'], mounts: [], flags: [] },
  };
  const embedding = engineCommand(engine, { ...order, pooling: 'mean' });
  const flags = embedding.argv.slice(embedding.argv.indexOf('--embedding'));
  assert.deepEqual(flags.slice(0, 3), ['--embedding', '--pooling', 'mean']);
  assert.deepEqual(flags.slice(3, 7), ['--batch-size', '2048', '--ubatch-size', '2048']);
  assert.match(embedding.notes.join(), /embeddings \(mean\)/);
  const ranking = engineCommand(engine, { ...order, pooling: 'rank' });
  assert.ok(ranking.argv.includes('--reranking'));
  assert.match(ranking.notes.join(), /ranks documents/);
  assert.ok(!engineCommand(engine, order).argv.includes('--embedding'));
});
