/**
 * Installs one pinned wheel (a package of the Python registry), or a pinned set of them, into
 * `<folder>/<name>-<version>/`, by the package clients of the machine.
 *
 * Invariants: the target is either whole, with the pinned hash, or not there; a second call finds
 * it and needs no network and no Python; two calls at once, also of two processes, install once;
 * room on the disk is checked before anything is fetched; an abort or a full disk leaves nothing
 * behind, and what a killed process left goes at the next install. Expected failures are values.
 */
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from './clock.ts';
import { type ExecResult, exec } from './exec.ts';
import { freeBytes, isErrno } from './files.ts';
import type { Random } from './random.ts';
import {
  clientEnv,
  readFailure,
  type WheelClient,
  type WheelWorkspace,
  wheelClients,
} from './wheel-client.ts';
import {
  bytesBelow,
  isComplete,
  keepOne,
  publish,
  removeFolder,
  removeLeftovers,
  temporaryName,
} from './wheel-folder.ts';
import { takeLock } from './wheel-lock.ts';
import type { Python } from './wheel-python.ts';

export type WheelFile = { sha256: string; bytes: number; unpacked_bytes: number };

export type WheelPin = {
  name: string;
  version: string;
  /** By `<platform>-<arch>` as Node names them, or `any`. */
  builds: Readonly<Record<string, WheelFile>>;
  /**
   * The text of a file of requirements, each with its hashes, for a set of packages: then `sha256`
   * is that text's, and the figures are about right.
   */
  requirements?: string;
};

export type WheelOptions = {
  pin: WheelPin;
  /** Where targets stand; made where missing. */
  folder: string;
  /** `<platform>-<arch>`, for instance `linux-x64`. */
  platform: string;
  /** The environment that the package clients may draw from. */
  env: Record<string, string>;
  clock: Clock;
  random: Random;
  signal: AbortSignal;
  onProgress?: (done_bytes: number, total_bytes: number) => void;
  /** Of the wheel's files, keep only this one, under this name. */
  keep?: { file: string; as: string };
  /** The one Python to install for: a set's files differ between versions. */
  python?: Python;
  /** Files that must be executable: clients need not keep a mode that the wheel gives. */
  executables?: string[];
  /** What a disk has left; the disk's own answer unless told. */
  freeBytes?: (folder: string) => number;
};

export type WheelFailure = {
  ok: false;
  code:
    | 'python_missing'
    | 'download_failed'
    | 'download_corrupt'
    | 'disk_full'
    | 'install_failed'
    | 'aborted';
  /** what; why; for disk_full also folder, needed_bytes and free_bytes. */
  details: Record<string, string | number>;
};
export type WheelResult = { ok: true; path: string } | WheelFailure;

const poll_ms = 200;
/** Without a new byte for so long, a download is given up. */
const stalled_ms = 120_000;
const no_deadline_ms = 2 ** 31 - 1;
/** Room for folders, logs and the file system's own books. */
const spare_bytes = 8 * 2 ** 20;

/** The folder of a wheel that is installed whole, or null. */
export function installedWheel(
  options: Pick<WheelOptions, 'pin' | 'folder' | 'platform'>,
): string | null {
  const file = buildFor(options.pin, options.platform);
  const target = join(options.folder, `${options.pin.name}-${options.pin.version}`);
  return file !== null && isComplete(target, file.sha256) ? target : null;
}

export async function installWheel(options: WheelOptions): Promise<WheelResult> {
  const { pin, platform, folder } = options;
  const file = buildFor(pin, platform);
  const what = `${pin.name} ${pin.version}`;
  if (file === null) return failure('install_failed', what, `there is no build for ${platform}`);
  const name = `${pin.name}-${pin.version}`;
  const target = join(folder, name);
  const job: Job = { options, file, what, name, target, shown_bytes: 0 };
  try {
    if (isComplete(target, file.sha256)) return { ok: true, path: target };
    await mkdir(folder, { recursive: true, mode: 0o700 });
    return await underLock(job);
  } catch (error) {
    if (options.signal.aborted) return failure('aborted', what, 'it was called off');
    if (isErrno(error, 'ENOSPC') || isErrno(error, 'EDQUOT')) return full(job);
    return failure('install_failed', what, error instanceof Error ? error.message : String(error));
  }
}

/** A wheel's build for a platform, or null. */
export function buildFor(pin: WheelPin, platform: string): WheelFile | null {
  return pin.builds[platform] ?? pin.builds.any ?? null;
}

type Job = {
  options: WheelOptions;
  file: WheelFile;
  what: string;
  name: string;
  target: string;
  /** Progress never goes back, although scratch files come and go. */
  shown_bytes: number;
};

async function underLock(job: Job): Promise<WheelResult> {
  const { options, file, name, target } = job;
  const unique = Buffer.from(options.random.bytes(6)).toString('hex');
  const space = join(options.folder, temporaryName(name, unique));
  const lock = await takeLock({
    path: join(options.folder, `.${name}.lock`),
    holder: { pid: process.pid, folder: space },
    clock: options.clock,
    signal: options.signal,
    done: () => isComplete(target, file.sha256),
    onWait: (holder) => void reportFrom(holder.folder, job, 1),
  });
  if (lock.outcome === 'done') return { ok: true, path: target };
  if (lock.outcome === 'aborted') return failure('aborted', job.what, 'it was called off');
  try {
    if (isComplete(target, file.sha256)) return { ok: true, path: target };
    await removeLeftovers(options.folder, name);
    if (!hasRoom(job)) return full(job);
    return await installInto(space, job, lock.touch);
  } finally {
    await removeFolder(space);
    await lock.release();
  }
}

async function installInto(
  folder: string,
  job: Job,
  touch: () => Promise<void>,
): Promise<WheelResult> {
  const { options, file, what, target } = job;
  const space: WheelWorkspace = {
    requirements: join(folder, 'requirements.txt'),
    content: join(folder, 'content'),
    scratch: join(folder, 'scratch'),
    venv: join(folder, 'venv'),
  };
  await mkdir(space.scratch, { recursive: true, mode: 0o700 });
  const { name, version, requirements } = options.pin;
  const one = `${name}==${version} --hash=sha256:${file.sha256}\n`;
  await writeFile(space.requirements, requirements ?? one);
  const look = {
    env: clientEnv(options.env),
    clock: options.clock,
    signal: options.signal,
    only: options.python,
  };
  let failed: WheelFailure | null = null;
  for await (const client of wheelClients(look, space)) {
    if (options.signal.aborted) break;
    failed = await runClient(client, folder, job, touch);
    if (failed === null) return finish(space, folder, job);
    // Another client would meet the same disk and the same file.
    if (failed.code !== 'download_failed') return failed;
  }
  if (options.signal.aborted) return failure('aborted', what, 'it was called off');
  return failed ?? failure('python_missing', what, `nothing here can fetch ${target}`);
}

async function finish(space: WheelWorkspace, folder: string, job: Job): Promise<WheelResult> {
  const { options, file, target } = job;
  let content = space.content;
  if (options.keep) {
    content = join(folder, 'kept');
    await keepOne(space.content, options.keep.file, content, options.keep.as);
  }
  for (const program of options.executables ?? []) await chmod(join(content, program), 0o755);
  await publish(content, target, file.sha256, options.pin.requirements === undefined);
  options.onProgress?.(file.bytes, file.bytes);
  return { ok: true, path: target };
}

/** Runs one client to its end while watching its bytes; null says that it did its work. */
async function runClient(
  client: WheelClient,
  folder: string,
  job: Job,
  touch: () => Promise<void>,
): Promise<WheelFailure | null> {
  const { options, what } = job;
  const ended = new AbortController();
  const stalled = new AbortController();
  const watching = watch(client, folder, job, { touch, ended: ended.signal, stalled });
  const [command = '', ...args] = client.argv;
  const result = await exec(command, args, {
    env: client.env,
    cwd: folder,
    timeout_ms: no_deadline_ms,
    signal: AbortSignal.any([options.signal, stalled.signal]),
    clock: options.clock,
  });
  ended.abort();
  await watching;
  if (options.signal.aborted) return failure('aborted', what, 'it was called off');
  if (stalled.signal.aborted) {
    return failure('download_failed', what, `no byte arrived for ${stalled_ms / 1000} s`);
  }
  return result.code === 0 ? null : clientFailure(result, job);
}

function clientFailure(result: ExecResult, job: Job): WheelFailure {
  const { code, why } = readFailure(result);
  return code === 'disk_full' ? full(job) : failure(code, job.what, why);
}

type Watch = { touch: () => Promise<void>; ended: AbortSignal; stalled: AbortController };

async function watch(
  client: WheelClient,
  folder: string,
  job: Job,
  { touch, ended, stalled }: Watch,
): Promise<void> {
  const { clock } = job.options;
  // uv unpacks while it downloads, so its bytes on the disk are those of the content.
  const scale = client.name === 'uv' ? job.file.bytes / job.file.unpacked_bytes : 1;
  let last = { bytes: 0, at: clock.monotonic() };
  while (!ended.aborted) {
    const bytes = await reportFrom(folder, job, scale);
    if (bytes !== last.bytes) last = { bytes, at: clock.monotonic() };
    if (clock.monotonic() - last.at > stalled_ms) return stalled.abort();
    await touch();
    await clock.sleep(poll_ms, ended);
  }
}

async function reportFrom(folder: string, job: Job, scale: number): Promise<number> {
  const bytes = await bytesBelow(join(folder, 'scratch'));
  const done = Math.min(job.file.bytes, Math.round(bytes * scale));
  job.shown_bytes = Math.max(job.shown_bytes, done);
  job.options.onProgress?.(job.shown_bytes, job.file.bytes);
  return bytes;
}

function hasRoom(job: Job): boolean {
  return free(job) >= neededBytes(job.file);
}

/** The wheel and its content at once, a tenth more, and some. */
export function neededBytes(file: WheelFile): number {
  return Math.ceil((file.bytes + file.unpacked_bytes) * 1.1) + spare_bytes;
}

function free(job: Job): number {
  try {
    return (job.options.freeBytes ?? freeBytes)(job.options.folder);
  } catch {
    // The disk was too full to even make the folder.
    return 0;
  }
}

function full(job: Job): WheelFailure {
  const { folder } = job.options;
  return {
    ok: false,
    code: 'disk_full',
    details: {
      what: job.what,
      folder,
      needed_bytes: neededBytes(job.file),
      free_bytes: free(job),
    },
  };
}

function failure(code: WheelFailure['code'], what: string, why: string): WheelFailure {
  return { ok: false, code, details: { what, why } };
}
