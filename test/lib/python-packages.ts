/**
 * Packages of Python for tests, installed once into the tests' cache, and scripts that use them.
 *
 * Invariants: a folder under its final name is whole; two tests that install at once do not meet;
 * nothing but the named folder is on the search path beside the standard library.
 */
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { exec } from '../../src/lib/exec.ts';
import { hostEnv, hostPython, testCache } from './wheel-bench.ts';

export type Packages = {
  /** Of the folder; another name for other packages. */
  name: string;
  /** With versions. */
  packages: readonly string[];
  /** Whether what they depend on is installed as well. */
  deps: boolean;
};

/** Runs a script with these packages; returns what it printed. */
export async function runPython(
  wanted: Packages,
  script: string,
  args: readonly string[],
): Promise<string> {
  const folder = await packageFolder(wanted);
  const env = { ...hostEnv, PYTHONPATH: folder, PYTHONDONTWRITEBYTECODE: '1' };
  return python([script, ...args], env);
}

async function packageFolder({ name, packages, deps }: Packages): Promise<string> {
  const final = join(testCache, name);
  if (existsSync(final)) return final;
  mkdirSync(testCache, { recursive: true });
  const started = mkdtempSync(join(testCache, `${name}-`));
  const quiet = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check'];
  const how = deps ? [] : ['--no-deps'];
  await python([...quiet, ...how, '--target', started, ...packages], hostEnv);
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
