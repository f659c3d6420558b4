/**
 * A place to try installs in: a temporary folder with an index of wheels, a PATH of its own, and
 * the machine's Python behind a wrapper that tells what it was called for.
 */
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { systemClock } from '../../src/lib/clock.ts';
import { readIfThere } from '../../src/lib/files.ts';
import { systemRandom } from '../../src/lib/random.ts';
import type { WheelOptions } from '../../src/lib/wheel.ts';
import { findPython } from '../../src/lib/wheel-python.ts';

export const hostEnv = Object.fromEntries(
  Object.entries(process.env).filter((entry): entry is [string, string] => entry[1] !== undefined),
);

export const hostPython = await findPython({ env: hostEnv, clock: systemClock });

export type Bench = ReturnType<typeof makeBench>;

export function makeBench() {
  const root = mkdtempSync(join(tmpdir(), 'einsora-wheel-'));
  const [bin, index, calls] = [join(root, 'bin'), join(root, 'index'), join(root, 'calls')];
  for (const folder of [bin, index]) mkdirSync(folder);
  const script = (name: string, body: string) => {
    writeFileSync(join(bin, name), `#!/bin/sh\n${body}\n`);
    chmodSync(join(bin, name), 0o755);
  };
  return {
    root,
    bin,
    index,
    folder: join(root, 'wheels'),
    script,
    /** Puts the machine's Python on the PATH; `before` is shell that runs first. */
    python: (before = '') =>
      script('python3', `echo "$*" >> ${calls}\n${before}\nexec ${hostPython?.executable} "$@"`),
    /** How many installs the Python was called for. */
    installs: () =>
      (readIfThere(calls) ?? '').split('\n').filter((line) => line.includes('pip install')).length,
    options: (pin: WheelOptions['pin']): WheelOptions => ({
      pin,
      folder: join(root, 'wheels'),
      platform: 'linux-x64',
      env: { ...hostEnv, PATH: bin, PIP_NO_INDEX: '1', PIP_FIND_LINKS: index },
      clock: systemClock,
      random: systemRandom,
      signal: new AbortController().signal,
    }),
    read: (path: string) => readFileSync(path, 'utf8'),
    [Symbol.dispose]: () => rmSync(root, { recursive: true, force: true }),
  };
}

/** Shell that makes a package client write its process id and then hang for ever. */
export function hangOnInstall(pid_file: string): string {
  return `case "$*" in *"pip install"*) echo $$ > ${pid_file}; exec /bin/sleep 600;; esac`;
}

/** Shell of a Python that says this of itself and can do nothing else. */
export function fakePython(
  version: number[],
  executable: string,
  prefix: string,
  usable = true,
): string {
  return `echo '${JSON.stringify({ version, executable, prefix, usable })}'`;
}

/** Where tests keep what they fetch, between runs. */
export const testCache =
  hostEnv.EINSORA_TEST_CACHE ?? fileURLToPath(new URL('../../.cache/test-tools', import.meta.url));
