/**
 * Contexts: the control planes that this user signed in to, by name, with the token for each.
 *
 * Invariants: the file is the user's alone (0600, in a folder of 0700) and refused where others can
 * read it; it is replaced as a whole, so that a crash leaves the old or the new one.
 */
import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import { isErrno, makePrivateFolder, readIfThere, writeDurably } from '../lib/files.ts';
import { Secret } from '../lib/secret.ts';
import { CliError, shellWord, usageError } from './cli-error.ts';
import { type Config, local_context } from './config.ts';

export type StoredContext = {
  url: string;
  user: string;
  tenant: string;
  token: string;
  token_id: string;
  expires_at: number | null;
  /** By which signing in again is known there (ADR-0028). */
  mark: string | null;
};
export type Contexts = { current: string | null; contexts: Record<string, StoredContext> };

const pattern = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;

export function readContexts(config: Config): Contexts {
  const path = pathOf(config);
  try {
    const stats = lstatSync(path);
    if (!stats.isFile() || (stats.mode & 0o077) !== 0) throw exposed(path);
  } catch (error) {
    if (isErrno(error, 'ENOENT') || isErrno(error, 'ENOTDIR'))
      return { current: null, contexts: {} };
    throw error;
  }
  return parse(readIfThere(path) ?? '{}', path);
}

/** Changes the stored contexts; `change` gives what they become. */
export function changeContexts(config: Config, change: (was: Contexts) => Contexts): void {
  const next = change(readContexts(config));
  makePrivateFolder(config.config_dir);
  writeDurably(pathOf(config), `${JSON.stringify(next, null, 2)}\n`);
}

/** The context that commands use where nothing else is named; null for this machine's own. */
export function currentContext(config: Config): { name: string; stored: StoredContext } | null {
  if (config.is_local) return null;
  const { current, contexts } = readContexts(config);
  const name = config.context_name ?? current;
  if (name === null || name === local_context) return null;
  const stored = Object.hasOwn(contexts, name) ? contexts[name] : undefined;
  if (stored === undefined) throw noSuchContext(name);
  return { name, stored };
}

export function tokenOf(stored: StoredContext): Secret {
  return new Secret(stored.token);
}

export function checkContextName(name: string): string {
  if (name !== local_context && pattern.test(name)) return name;
  const why = name === local_context ? 'is the name of this machine’s own' : 'is no name';
  throw usageError(`${name} ${why}: use letters, digits, dots and dashes for a context.`);
}

export function noSuchContext(name: string): CliError {
  return new CliError({
    code: 'not_found',
    message: `There is no context ${name}.`,
    fix: 'bin/einsora context ls',
    exit: 'not_found',
  });
}

function pathOf(config: Config): string {
  return join(config.config_dir, 'contexts.json');
}

function parse(text: string, path: string): Contexts {
  try {
    const { current, contexts } = JSON.parse(text) as Partial<Contexts>;
    const valid = Object.entries(contexts ?? {}).filter(
      ([name, one]) => pattern.test(name) && URL.canParse(one.url) && typeof one.token === 'string',
    );
    return { current: current ?? null, contexts: Object.fromEntries(valid) };
  } catch {
    throw new CliError({
      code: 'contexts_unreadable',
      message: `${path} is damaged.`,
      fix: `rm ${shellWord(path)}, then: bin/einsora login`,
      exit: 'failed',
    });
  }
}

function exposed(path: string): CliError {
  return new CliError({
    code: 'contexts_exposed',
    message: `Others on this machine can read ${path}, so it is not used.`,
    fix: `chmod 600 ${shellWord(path)}`,
    exit: 'refused',
  });
}
