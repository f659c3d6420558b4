/**
 * Finds the control plane of a data folder, and the local owner's token.
 *
 * Invariants: the token is refused where others can read it; it is not handed to whoever took over
 * the port of a control plane that is gone (its process must be alive).
 */
import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import { isErrno, readIfThere } from '../lib/files.ts';
import { Secret } from '../lib/secret.ts';
import { CliError, shellWord, unreachable } from './cli-error.ts';
import type { Config } from './config.ts';

export type ControlPlane = { url: string; pid: number; version: string };

/** What `up` left in the data folder while it serves, or null where nothing does. */
export function findControlPlane(config: Config): ControlPlane | null {
  const path = join(config.data_dir, 'control-plane.json');
  let text: string | null = null;
  try {
    text = readIfThere(path);
  } catch (error) {
    throw isErrno(error, 'EACCES') ? unreadable(path) : error;
  }
  const found = text === null ? null : parse(text);
  return found !== null && isAlive(found.pid) ? found : null;
}

/** The token by which the owner of the data folder is signed in. */
export function readOwnerToken(config: Config): Secret {
  const path = join(config.data_dir, 'owner-token');
  let text: string | null = null;
  try {
    const stats = lstatSync(path);
    if (!stats.isFile() || (stats.mode & 0o077) !== 0) throw exposed(path);
    text = readIfThere(path);
  } catch (error) {
    if (isErrno(error, 'EACCES')) throw unreadable(path);
    if (!isErrno(error, 'ENOENT')) throw error;
  }
  if (text === null || text.trim() === '') throw unreachable(config);
  return new Secret(text.trim());
}

function exposed(path: string): CliError {
  return new CliError({
    code: 'owner_token_exposed',
    message: `Others on this machine can read ${path}, so it is not used.`,
    fix: `chmod 600 ${shellWord(path)}`,
    exit: 'refused',
  });
}

function unreadable(path: string): CliError {
  return new CliError({
    code: 'owner_token_unreadable',
    message: `${path} belongs to another user of this machine.`,
    fix: 'run this as the user who runs bin/einsora up',
    exit: 'refused',
  });
}

function parse(text: string): ControlPlane | null {
  try {
    const { url, pid, version } = JSON.parse(text) as Partial<Record<string, unknown>>;
    const valid = typeof url === 'string' && typeof pid === 'number' && pid > 0;
    return valid && URL.canParse(url) ? { url, pid, version: String(version) } : null;
  } catch {
    return null;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return !isErrno(error, 'ESRCH');
  }
}
