/**
 * The package clients that can bring a wheel, as command lines, and what their failures mean.
 *
 * Invariants: the host's own settings decide where packages come from (no host name stands here);
 * every client checks the pinned hash before it unpacks anything, builds nothing, takes no
 * dependency along and writes only below the folder it is given. A password in an index URL is
 * never repeated.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type ExecResult, exec } from './exec.ts';
import { plainText } from './text.ts';
import {
  fetchPython,
  findPython,
  findPythons,
  type Python,
  type PythonLook,
} from './wheel-python.ts';
import { findProgram } from './which.ts';

export type WheelClient = {
  name: 'uv' | 'pip';
  argv: string[];
  env: Record<string, string>;
};

/** The folders of one install: all below one private temporary folder. */
export type WheelWorkspace = {
  requirements: string;
  content: string;
  /** What the client writes on its way there: the progress is read off its size. */
  scratch: string;
  venv: string;
};

/** Settings that would send the files elsewhere, or forbid what is done here. */
const dropped = /^PIP_(TARGET|PREFIX|ROOT|USER|DRY_RUN|REQUIRE_VIRTUALENV|PYTHON|LOG|QUIET)$/;
const kept = new RegExp(
  [
    '^(PATH|HOME|USER|LOGNAME|NETRC|PIP_.*|UV_.*|PYENV_ROOT|PYENV_VERSION',
    'SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE',
    '(HTTPS?|ALL|NO)_PROXY|XDG_(CONFIG|DATA)_.*)$',
  ].join('|'),
  'i',
);

/** Of an environment, only what a package client needs: the way, the home, and its own settings. */
export function clientEnv(env: Record<string, string>): Record<string, string> {
  const entries = Object.entries(env).filter(([name]) => kept.test(name) && !dropped.test(name));
  return { ...Object.fromEntries(entries), PIP_USER: '0', PIP_REQUIRE_VIRTUALENV: '0' };
}

/**
 * The clients of this machine one after the other, best first; each is only looked for when the one
 * before it could not do the job. uv reads none of pip's settings, so pip is worth a second try.
 */
export async function* wheelClients(
  look: PythonLook,
  space: WheelWorkspace,
): AsyncGenerator<WheelClient> {
  const first = (await findPython(look)) ?? (await fetchPython(look));
  if (first === null) return;
  const uv = findProgram('uv', look.env.PATH);
  if (uv !== null) yield uvClient(uv, first, look.env, space);
  for await (const python of findPythons(look)) {
    const pip = await withPip(python, look, space);
    if (pip !== null) return yield pipClient(pip, look.env, space);
  }
}

function uvClient(
  uv: string,
  python: Python,
  env: Record<string, string>,
  space: WheelWorkspace,
): WheelClient {
  return {
    name: 'uv',
    argv: [
      uv,
      ...['pip', 'install', '--python', python.executable, '--no-progress', '--no-deps'],
      ...['--require-hashes', '--only-binary', ':all:', '--target', space.content],
      ...['-r', space.requirements],
    ],
    // A cache of its own on the same disk: files are linked into place, and go with the folder.
    env: { ...env, TMPDIR: space.scratch, UV_CACHE_DIR: join(space.scratch, 'cache') },
  };
}

function pipClient(
  python: string,
  env: Record<string, string>,
  space: WheelWorkspace,
): WheelClient {
  return {
    name: 'pip',
    argv: [
      python,
      ...['-m', 'pip', 'install', '--no-deps', '--require-hashes', '--only-binary', ':all:'],
      ...['--no-compile', '--no-cache-dir', '--disable-pip-version-check', '--no-input'],
      ...['--progress-bar', 'off', '--target', space.content, '-r', space.requirements],
    ],
    env: { ...env, TMPDIR: space.scratch },
  };
}

/** The command of a Python that has pip: itself, or a virtual environment made from it; or null. */
async function withPip(
  python: Python,
  look: PythonLook,
  space: WheelWorkspace,
): Promise<string | null> {
  const options = { ...look, timeout_ms: 120_000 };
  if ((await exec(python.command, ['-m', 'pip', '--version'], options)).code === 0) {
    return python.command;
  }
  await mkdir(space.venv, { recursive: true });
  const made = await exec(python.command, ['-m', 'venv', '--clear', space.venv], options);
  return made.code === 0 ? join(space.venv, 'bin', 'python') : null;
}

export type ClientFailure = {
  code: 'disk_full' | 'download_corrupt' | 'download_failed';
  why: string;
};

/** What a failed client meant to say. */
export function readFailure(result: ExecResult): ClientFailure {
  const said = plainText(`${result.stdout}\n${result.stderr}`);
  if (isFull(said)) return { code: 'disk_full', why: 'the disk is full' };
  if (/do not match the hashes|hash mismatch/i.test(said)) {
    return { code: 'download_corrupt', why: 'its checksum is another one' };
  }
  if (/Retrying \(|error sending request|dns error|ConnectionError|timed out/i.test(said)) {
    return { code: 'download_failed', why: 'the package registry did not answer' };
  }
  return { code: 'download_failed', why: lastError(said) ?? endOf(result) };
}

export function isFull(text: string): boolean {
  return /No space left on device|ENOSPC|os error 28\b/i.test(text);
}

function lastError(said: string): string | null {
  const lines = said.split('\n').filter((line) => /^\s*(error|cause)\b/i.test(line));
  const line = lines.at(-1)?.replace(/^\s*(error|cause):?\s*/i, '');
  return line ? line.replace(/\/\/[^/@\s]+@/g, '//').slice(0, 240) : null;
}

function endOf(result: ExecResult): string {
  return result.signal !== null
    ? `the package client was ended by ${result.signal}`
    : `the package client ended with ${result.code ?? 'no exit code'}`;
}
