/**
 * The packages that write model files, installed once into the tests' cache: writers that know
 * nothing of our validators.
 *
 * Invariants: a folder under its final name is whole; two tests that install at once do not meet.
 */
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { exec } from '../../src/lib/exec.ts';
import { hostEnv, hostPython, testCache } from './wheel-bench.ts';

const packages = ['gguf==0.19.0', 'safetensors==0.8.0', 'numpy>=2,<3'];
const honest = join(import.meta.dirname, 'honest');

export const chat_templates = join(honest, 'templates');

/** Runs a script of the folder `honest` with the packages; returns what it printed. */
export async function runWriter(script: string, args: readonly string[]): Promise<string> {
  const env = { ...hostEnv, PYTHONPATH: await writersFolder(), PYTHONDONTWRITEBYTECODE: '1' };
  return python([join(honest, script), ...args], env);
}

async function writersFolder(): Promise<string> {
  const final = join(testCache, 'writers-1');
  if (existsSync(final)) return final;
  mkdirSync(testCache, { recursive: true });
  const started = mkdtempSync(join(testCache, 'writers-'));
  const quiet = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check'];
  await python([...quiet, '--no-deps', '--target', started, ...packages], hostEnv);
  if (existsSync(final)) rmSync(started, { recursive: true });
  else renameSync(started, final);
  return final;
}

async function python(args: string[], env: Record<string, string>): Promise<string> {
  if (hostPython === null) throw new Error('there is no Python');
  const ran = await exec(hostPython.executable, args, { env, timeout_ms: 240_000 });
  if (ran.code !== 0) throw new Error(`${args.join(' ')}: ${ran.outcome}\n${ran.stderr}`);
  return ran.stdout;
}
