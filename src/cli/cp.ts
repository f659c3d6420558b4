/**
 * `einsora cp`: files and folders into a workload and out of it.
 *
 * Invariants: bounded memory whatever the size; each file appears whole or not at all, both ways;
 * permission bits are kept; what is neither file nor folder is said and left out; a name from the
 * workload never leads out of the folder that was asked for.
 */
import { createReadStream, createWriteStream } from 'node:fs';
import { chmod, mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { formatBytes } from '../core/format.ts';
import { CliError, usageError } from './cli-error.ts';
import { openClient } from './client.ts';
import { type CopyView, openCopyView } from './copy-view.ts';
import { baseName, type CopyEnd, inside, parseEnds } from './cp-place.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { printJson, say } from './output.ts';
import { openFiles, type WorkloadFiles } from './run-files.ts';
import { onWorkload } from './workload-name.ts';

export type CopyOptions = { recursive?: boolean; json?: boolean };

type Copy = {
  context: Context;
  files: WorkloadFiles;
  recursive: boolean;
  view: CopyView;
  bytes: number;
  count: number;
};

export async function cp(
  context: Context,
  source: string,
  target: string,
  options: CopyOptions,
): Promise<number> {
  const { from, to } = parseEnds(source, target);
  const workload = from.at === 'run' ? from.workload : to.at === 'run' ? to.workload : '';
  const view = openCopyView(context);
  const copy: Copy = {
    ...{ context, files: openFiles(context, workload), view, bytes: 0, count: 0 },
    recursive: options.recursive === true,
  };
  try {
    await onWorkload(openClient(context), workload, () =>
      to.at === 'run' ? upload(copy, from, to.path) : download(copy, from, to),
    );
  } finally {
    view.close();
  }
  const { bytes, count } = copy;
  if (options.json) printJson(context, { from: source, to: target, files: count, bytes });
  else if (to.at !== 'stdio') {
    say(context, `${count === 1 ? '1 file' : `${count} files`}, ${formatBytes(bytes)}.`);
  }
  return exitCode('ok');
}

async function upload(copy: Copy, from: CopyEnd, path: string): Promise<void> {
  const { files, context } = copy;
  const there = await files.stat(path);
  if (from.at !== 'here') {
    if (there?.kind === 'folder') throw usageError(`${path} is a folder: give a name for the file`);
    return send(copy, context.io.stdin, path, 0o644, null);
  }
  const facts = await stat(from.path).catch((error) => {
    throw fileError(from.path, error);
  });
  const name = basename(join(context.io.cwd, from.path));
  const into = there?.kind === 'folder' || path.endsWith('/') ? inside(path, name) : path;
  if (!facts.isDirectory()) {
    return send(copy, createReadStream(from.path), into, facts.mode, facts.size);
  }
  if (!copy.recursive) throw folderWithoutFlag(from.path);
  await uploadFolder(copy, from.path, into);
}

async function uploadFolder(copy: Copy, folder: string, path: string): Promise<void> {
  await copy.files.makeFolder(path);
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const here = join(folder, entry.name);
    // Of a link, what it leads to.
    const facts = await stat(here).catch(() => null);
    if (facts?.isDirectory() && !entry.isSymbolicLink()) {
      await uploadFolder(copy, here, inside(path, entry.name));
    } else if (facts?.isFile()) {
      const to = inside(path, entry.name);
      await send(copy, createReadStream(here), to, facts.mode, facts.size);
    } else {
      copy.view.note(`${here} was left out: it is no file and no folder`);
    }
  }
}

async function send(
  copy: Copy,
  content: Readable,
  path: string,
  mode: number,
  size: number | null,
): Promise<void> {
  copy.view.begin(path, size);
  await copy.files.write(path, counted(copy, content), mode);
  copy.count += 1;
}

async function download(copy: Copy, from: CopyEnd, to: CopyEnd): Promise<void> {
  if (from.at !== 'run') throw usageError('nothing to copy from');
  const { files, context } = copy;
  if (to.at === 'stdio') {
    const { content } = await files.read(from.path);
    for await (const chunk of counted(copy, content)) {
      if (!context.io.stdout.write(chunk)) await drained(context.io.stdout);
    }
    return;
  }
  const facts = await files.stat(from.path);
  if (facts === null) throw notThere(from);
  const target = to.at === 'here' ? to.path : '.';
  const there = await stat(target).catch(() => null);
  const name = baseName(from.path) || from.workload;
  const into = there?.isDirectory() ? join(target, name) : target;
  if (facts.kind !== 'folder') return fetchFile(copy, from.path, into, facts.size);
  if (!copy.recursive) throw folderWithoutFlag(from.path);
  await downloadFolder(copy, from.path, into);
}

async function downloadFolder(copy: Copy, path: string, folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  for await (const entry of copy.files.list(path)) {
    const { name, kind, size } = entry;
    if (name === '' || name === '.' || name === '..' || name.includes('/')) {
      throw new Error('the workload told a name that is none');
    }
    const there = inside(path, name);
    if (kind === 'folder') await downloadFolder(copy, there, join(folder, name));
    else if (kind === 'file') await fetchFile(copy, there, join(folder, name), size);
    else copy.view.note(`${there} was left out: it is no file and no folder`);
  }
}

/** Beside its place and renamed: what is cut off leaves what was there. */
async function fetchFile(copy: Copy, path: string, to: string, size: number): Promise<void> {
  copy.view.begin(path, size);
  const draft = `${to}.${Buffer.from(copy.context.io.random.bytes(4)).toString('hex')}.part`;
  try {
    const { content, mode } = await copy.files.read(path);
    await pipeline(counted(copy, content), createWriteStream(draft, { flags: 'wx', mode: 0o600 }));
    await chmod(draft, mode & 0o777);
    await rename(draft, to);
  } catch (error) {
    await rm(draft, { force: true });
    throw error instanceof CliError ? error : fileError(to, error);
  }
  copy.count += 1;
}

function counted(copy: Copy, content: Readable): Readable {
  content.on('data', (chunk: Buffer) => {
    copy.bytes += chunk.length;
    copy.view.moved(chunk.length);
  });
  content.pause();
  return content;
}

function drained(stream: NodeJS.WritableStream): Promise<void> {
  return new Promise((resolve) => {
    stream.once('drain', resolve);
  });
}

function folderWithoutFlag(path: string): CliError {
  return usageError(`${path} is a folder: copy it with -r`);
}

function notThere({ workload, path }: { workload: string; path: string }): CliError {
  return new CliError({
    code: 'file_not_found',
    message: `There is no ${path} in ${workload}.`,
    fix: `bin/einsora exec ${workload} -- ls -la ${path.slice(0, path.lastIndexOf('/')) || '/'}`,
    exit: 'not_found',
  });
}

function fileError(path: string, error: unknown): CliError {
  const { code, message } = error as NodeJS.ErrnoException;
  const why = code === 'ENOENT' ? 'there is none' : message;
  return new CliError({ code: 'file_refused', message: `${path}: ${why}.`, exit: 'failed' });
}
