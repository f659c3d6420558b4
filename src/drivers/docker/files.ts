/**
 * Files of a container: read through the engine's archives, changed by its own shell.
 *
 * Invariants: links are followed inside the container, by the engine or by its shell, never here; a
 * file is replaced only once the new content is whole; what is written belongs to the run's user.
 * An image without a shell can be read, and says so when it is to be changed.
 */
import { posix } from 'node:path';
import { Readable, type Writable } from 'node:stream';
import { describeError } from '../../lib/log.ts';
import type { ExecSession, FileFacts, RunFiles } from '../../lib/session.ts';
import { DriverError } from '../driver.ts';
import type { Container } from './container.ts';
import { driverError, isStatus, oneLine } from './engine-error.ts';
import { type ExecDeps, openExec } from './exec.ts';
import {
  drop_script,
  list_script,
  make_folder_script,
  missing_code,
  put_script,
  readListing,
  remove_script,
  rename_script,
  take_script,
} from './file-scripts.ts';
import { readEntry } from './tar.ts';

type Context = { deps: ExecDeps; container: Container };

const output_limit_bytes = 32 * 1024 * 1024;
const never = new AbortController().signal;

export function containerFiles(deps: ExecDeps, container: Container): RunFiles {
  const context: Context = { deps, container };
  return {
    stat: async (path) => (await followed(context, path)).facts,
    list: (path) => list(context, path),
    read: (path, offset) => read(context, path, offset),
    write: (path, content, mode) => write(context, path, content, mode),
    makeFolder: async (path) => void (await script(context, path, make_folder_script, [path])),
    remove: async (path) => void (await script(context, path, remove_script, [path])),
    rename: async (from, to) => void (await script(context, from, rename_script, [from, to])),
  };
}

/** What a path leads to: of a link its end. */
async function followed(
  context: Context,
  path: string,
): Promise<{ facts: FileFacts; path: string }> {
  const first = await statOne(context, path);
  if (first.facts.kind !== 'link') return { facts: first.facts, path };
  const second = await statOne(context, first.link);
  return { facts: { ...second.facts, name: first.facts.name }, path: first.link };
}

type GoStat = { name?: string; size?: number; mode?: number; mtime?: string; linkTarget?: string };

async function statOne(
  { deps, container }: Context,
  path: string,
): Promise<{ facts: FileFacts; link: string }> {
  checkPath(path);
  const url = `/containers/${container.id}/archive`;
  try {
    const answer = await deps.engine.open({ method: 'HEAD', path: url, query: { path } });
    answer.resume();
    const header = String(answer.headers['x-docker-container-path-stat'] ?? '');
    const found = JSON.parse(Buffer.from(header, 'base64').toString('utf8')) as GoStat;
    const mode = found.mode ?? 0;
    const facts: FileFacts = {
      name: posix.basename(path) || '/',
      kind: kindOfGo(mode),
      size: found.size ?? 0,
      mode: (mode & 0o777) | specialBits(mode),
      modified_at: Date.parse(found.mtime ?? '') || 0,
    };
    return { facts, link: found.linkTarget ?? '' };
  } catch (error) {
    throw fileError(path, error);
  }
}

async function read(context: Context, asked: string, offset: number): Promise<Readable> {
  const { deps, container } = context;
  const { facts, path } = await followed(context, asked);
  if (facts.kind !== 'file') throw refused(asked, `it is a ${facts.kind}, no file`);
  const url = `/containers/${container.id}/archive`;
  try {
    const answer = await deps.engine.open({ method: 'GET', path: url, query: { path } });
    const { size, kind } = await readEntry(answer);
    if (kind !== 'file') throw new Error('it became something else');
    return Readable.from(contentOf(answer, size, Math.max(0, offset)), { objectMode: false });
  } catch (error) {
    throw fileError(asked, error);
  }
}

/** The bytes of an archive's entry. One that is cut off is an error, not an end. */
async function* contentOf(archive: Readable, size: number, offset: number) {
  let at = 0;
  for await (const chunk of archive) {
    const bytes = (chunk as Buffer).subarray(0, size - at);
    const skip = Math.max(0, offset - at);
    at += bytes.length;
    if (skip < bytes.length) yield bytes.subarray(skip);
    if (at >= size) return;
  }
  if (at < size) throw new Error('the file was cut off while it was read');
}

async function list(context: Context, path: string): Promise<FileFacts[]> {
  const { stdout } = await script(context, path, list_script, [path]);
  return readListing(stdout).map(({ name, bits, size, modified_s }) => ({
    name,
    kind: kindOfBits(bits),
    size,
    mode: bits & 0o7777,
    modified_at: modified_s * 1000,
  }));
}

async function write(
  context: Context,
  path: string,
  content: Readable,
  mode: number,
): Promise<void> {
  // It may break off before anybody reads it: `feed` looks for that.
  content.on('error', () => {});
  const token = `einsora-${Buffer.from(context.deps.random.bytes(8)).toString('hex')}`;
  const args = [path, token, (mode & 0o7777).toString(8)];
  try {
    await script(context, path, take_script, args, content);
    // Only now: whatever cut the content off before has left the old file as it was.
    await script(context, path, put_script, args);
  } catch (error) {
    await script(context, path, drop_script, args).catch(() => {}); // gone with its container
    throw error;
  }
}

/** Runs a script to its end. Rejects where it fails, or where its input does. */
async function script(
  { deps, container }: Context,
  path: string,
  text: string,
  args: string[],
  input?: Readable,
): Promise<{ stdout: string }> {
  for (const one of args) checkPath(one, one === args[0]);
  const argv = ['/bin/sh', '-c', text, 'sh', ...args];
  const ask = { argv, env: { LC_ALL: 'C' }, cwd: '/', terminal: null };
  const session = await openExec(deps, container, ask, never).catch((error: DriverError) => {
    const why = /no program/.test(error.message) ? 'its image has no shell' : error.message;
    throw refused(path, why, error);
  });
  const outputs = Promise.all([collect(session.stdout), collect(session.stderr)]);
  outputs.catch(() => {}); // looked at below, unless the input fails first
  try {
    if (input === undefined) session.stdin.end();
    else await feed(session, input);
  } catch (error) {
    session.kill();
    await session.exited;
    throw refused(path, `its content broke off: ${describeError(error)}`, error);
  }
  // A program that ended before it took all of its input may end the connection in mid-write, and
  // with it what is left of its output: how it ended still tells why.
  const [stdout, stderr] = await outputs.catch((error) => [null, describeError(error)] as const);
  const { code } = await session.exited;
  if (code === 0 && stdout !== null) return { stdout };
  throw code === missing_code
    ? notFound(path)
    : fileError(path, new Error(stderr || `it ended with ${code}`));
}

/**
 * Gives it all of the input; rejects where that breaks off. A program that ended early takes no
 * more: its own errors say why.
 */
async function feed({ stdin }: ExecSession, input: Readable): Promise<void> {
  for await (const chunk of input) {
    if (stdin.destroyed) return;
    if (!stdin.write(chunk)) await untilWritable(stdin);
  }
  stdin.end();
}

function untilWritable(stdin: Writable): Promise<void> {
  return new Promise((resolve) => {
    if (stdin.destroyed) return resolve();
    const settled = () => {
      stdin.off('drain', settled);
      stdin.off('close', settled);
      resolve();
    };
    stdin.on('drain', settled);
    stdin.on('close', settled);
  });
}

async function collect(output: Readable | null): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of output ?? []) {
    bytes += (chunk as Buffer).length;
    if (bytes > output_limit_bytes) throw new Error('there is too much of it');
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function checkPath(path: string, must_be_absolute = true): void {
  if (path.includes('\0')) throw refused(path.replaceAll('\0', ' '), 'it holds a NUL');
  if (must_be_absolute && !path.startsWith('/')) throw refused(path, 'it is no absolute path');
}

function fileError(path: string, error: unknown): DriverError {
  if (error instanceof DriverError) return error;
  const message = describeError(error);
  if (isStatus(error, 404) || /no such file/i.test(message)) return notFound(path, error);
  // The shell's words, without its own name and the line before them.
  const why = oneLine(message).replace(/^(?:[\w/.-]+: )+/, '');
  return refused(path, why, error);
}

function notFound(path: string, cause?: unknown): DriverError {
  return driverError('file_not_found', { path, name: 'it' }, cause);
}

function refused(path: string, why: string, cause?: unknown): DriverError {
  return driverError('file_refused', { path, why, name: 'it' }, cause);
}

/** Go's own bits of a mode, as the engine sends them. */
function kindOfGo(mode: number): FileFacts['kind'] {
  const has = (bit: number) => (mode & (2 ** bit)) !== 0;
  if (mode >= 2 ** 31) return 'folder';
  if (has(27)) return 'link';
  return [26, 25, 24, 21, 19].some(has) ? 'other' : 'file';
}

function specialBits(mode: number): number {
  const bit = (from: number, to: number) => ((mode & (2 ** from)) !== 0 ? to : 0);
  return bit(23, 0o4000) | bit(22, 0o2000) | bit(20, 0o1000);
}

function kindOfBits(bits: number): FileFacts['kind'] {
  const format = bits & 0o170000;
  if (format === 0o100000) return 'file';
  if (format === 0o040000) return 'folder';
  return format === 0o120000 ? 'link' : 'other';
}
