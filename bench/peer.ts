/**
 * What benches share of their peers: programs of others that are installed once into the
 * repository's cache, and are null, with the reason, where they cannot be had.
 */
import { join } from 'node:path';
import { exec } from '../src/lib/exec.ts';
import { findProgram } from '../src/lib/which.ts';
import { type Served, serve } from './served-program.ts';

export type Peer = { port: number; pid: number; stop(): Promise<void> };
export type Missing = { missing: string };

const peers_folder = join(import.meta.dirname, '../.cache/peers');
const install_timeout_ms = 10 * 60_000;
const start_timeout_ms = 120_000;

/** Where a peer is installed. */
export function peerFolder(name: string): string {
  return join(peers_folder, name);
}

/** Installs packages of npm into a folder, or says why not. `packages` left out: its own. */
export async function npmInstall(folder: string, packages: string[] = []): Promise<string | null> {
  const args = ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--prefix', folder];
  const npm = findProgram('npm', process.env.PATH) ?? 'npm';
  return install(npm, packages.length === 0 ? args : [...args, '--no-save', ...packages]);
}

/** Runs what installs something; null, or the last thing that it said. */
export async function install(command: string, args: string[]): Promise<string | null> {
  const made = await exec(command, args, { env: environment(), timeout_ms: install_timeout_ms });
  return made.code === 0 ? null : lastLine(made.stderr || made.stdout);
}

/** Starts a program that answers 200 at this path once it serves. */
export async function startPeer(
  program: { command: string; args: string[]; port: number; path: string },
  env: Record<string, string> = {},
): Promise<Peer | Missing> {
  const { port, path, ...rest } = program;
  const url = `http://127.0.0.1:${port}${path}`;
  try {
    const served: Served = await serve({ ...rest, url, env }, start_timeout_ms);
    return { port, pid: served.pid, stop: served.stop };
  } catch (error) {
    return { missing: error instanceof Error ? error.message : String(error) };
  }
}

export function isMissing<Had>(peer: Had | Missing): peer is Missing {
  return typeof peer === 'object' && peer !== null && 'missing' in peer;
}

export function environment(): Record<string, string> {
  const entries = Object.entries(process.env);
  return Object.fromEntries(entries.flatMap(([k, v]) => (v === undefined ? [] : [[k, v]])));
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1)?.slice(0, 200) || 'it could not be installed';
}
