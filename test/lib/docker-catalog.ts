/**
 * The catalog's images for tests: out of Debian's own packages and of what the machine has already
 * fetched for itself, without any registry.
 *
 * Invariants: what takes long is kept in the tests' cache; an image is named by what it is made of,
 * and takes the catalog's name where nobody else's image has it.
 */
import { createHash } from 'node:crypto';
import { createReadStream, existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Engine } from '../../src/drivers/docker/engine.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { exec } from '../../src/lib/exec.ts';
import { systemRandom } from '../../src/lib/random.ts';
import { digest } from '../../src/lib/secret.ts';
import { createJupyter } from '../../src/runtimes/jupyter.ts';
import { createLlamaCpp } from '../../src/runtimes/llama-cpp.ts';
import { dockerCommand } from './docker-harness.ts';
import { hasImage } from './docker-images.ts';
import { hostEnv, testCache } from './wheel-bench.ts';

const images = fileURLToPath(new URL('../../deploy/images', import.meta.url));
const never = new AbortController().signal;
const ours = 'dev.einsora.test=1';

/** Debian 12 with Python, and a user of id 1000. */
export async function debianImage(engine: Engine): Promise<string> {
  mkdirSync(testCache, { recursive: true });
  const archive = join(testCache, `debian-12-${process.arch}-2.tar.gz`);
  if (!existsSync(archive)) {
    const args = [join(images, 'without-registry.sh'), archive];
    const made = await exec('sh', args, { env: hostEnv, timeout_ms: 580_000 });
    if (made.code !== 0) throw new Error(`no root folder: ${made.outcome} ${made.stderr}`);
  }
  const reference = `localhost/einsora-test/debian:${(await digestOf(archive)).slice(0, 16)}`;
  if (await hasImage(engine, reference)) return reference;
  const changes = ['-c', `LABEL ${ours}`, '-c', 'CMD ["sleep", "infinity"]'];
  await dockerCommand(engine.socket_path, ['import', ...changes, archive, reference]);
  return reference;
}

/** `localhost/einsora/jupyter:1`, of the machine's own environment of notebooks. */
export async function jupyterImage(engine: Engine): Promise<string> {
  const jupyter = createJupyter(toolOptions());
  const installed = await jupyter.install(() => {}, never);
  if (!installed.ok) throw new Error(JSON.stringify(installed));
  const { env, label, mounts } = installed.environment;
  const environment = mounts.find(({ target }) => target === env.PYTHONPATH);
  if (environment === undefined) throw new Error('the environment of notebooks has no folder');
  return imageOf(engine, 'jupyter', {
    of: label,
    files: [[`${environment.source}/.`, environment.target]],
    scripts: {
      '/usr/local/bin/python': 'exec python3 "$@"',
      '/usr/local/bin/jupyter': 'shift; exec python3 -m jupyterlab "$@"',
    },
    changes: [
      ...['PYTHONPATH', 'JUPYTERLAB_DIR', 'JUPYTER_PATH', 'JUPYTER_CONFIG_PATH'].map(
        (name) => `ENV ${name}=${env[name]}`,
      ),
      'ENV SHELL=/bin/bash PIP_USER=1',
      'USER 1000:1000',
    ],
  });
}

/** `localhost/einsora/llama-cpp:1`, with the very engine that the machine's own endpoints use. */
export async function llamaImage(engine: Engine): Promise<string> {
  const installed = await createLlamaCpp(toolOptions()).install(() => {}, never);
  if (!installed.ok) throw new Error(JSON.stringify(installed));
  const wheel = installed.engine.mounts.find(({ source }) => /xllamacpp-[^/]+$/.test(source));
  if (wheel === undefined) throw new Error('this machine has an engine of its own');
  return imageOf(engine, 'llama-cpp', {
    of: installed.engine.label,
    files: [
      [`${wheel.source}/.`, '/opt/xllamacpp'],
      [join(images, 'llama-cpp/llama-server'), '/usr/bin/llama-server'],
    ],
    scripts: {},
    changes: ['USER 1000:1000'],
  });
}

type Made = {
  of: string;
  files: [source: string, target: string][];
  /** Small shell scripts, by path. */
  scripts: Record<string, string>;
  changes: string[];
};

/** A container of the base, with files copied in, kept as an image. */
async function imageOf(engine: Engine, name: string, made: Made): Promise<string> {
  const base = await debianImage(engine);
  const docker = (...args: string[]) => dockerCommand(engine.socket_path, args);
  const server = join(images, 'llama-cpp/llama-server');
  const tag = digest(JSON.stringify([1, base, made, await digestOf(server)])).slice(0, 16);
  const reference = `localhost/einsora-test/${name}:${tag}`;
  if (!(await hasImage(engine, reference))) {
    const script = Object.entries(made.scripts)
      .map(([path, line]) => `printf '%s\\n' '#!/bin/sh' '${line}' > ${path}; chmod 755 ${path}`)
      .join('; ');
    const folders = made.files.map(([, target]) => target.replace(/\/[^/]+$/, ''));
    const prepare = `mkdir -p ${folders.join(' ')}; ${script || ':'}`;
    const container = await docker('create', '--network', 'none', base, 'sh', '-c', prepare);
    try {
      await docker('start', '-a', container);
      for (const [source, target] of made.files) {
        await docker('cp', source, `${container}:${target}`);
      }
      const changes = [...made.changes, `LABEL ${ours}`].flatMap((change) => ['-c', change]);
      await docker('commit', ...changes, container, reference);
    } finally {
      await docker('rm', '-f', container);
    }
  }
  const catalog = `localhost/einsora/${name}:1`;
  const format = '{{index .Config.Labels "dev.einsora.test"}}';
  const holder = await docker('image', 'inspect', '-f', format, catalog).catch(() => '1');
  if (holder === '1') await docker('tag', reference, catalog);
  return catalog;
}

function toolOptions() {
  return {
    tools_folder: join(testCache, 'tools'),
    platform: `${process.platform}-${process.arch}`,
    env: hostEnv,
    clock: systemClock,
    random: systemRandom,
  };
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path)) hash.update(chunk);
  return hash.digest('hex');
}
