/**
 * The files of a native run, as the run sees them.
 *
 * Invariants: names are found by walk.ts alone, never on the machine; only regular files are read
 * and written, so that no pipe or device of the run's making can hold this program up; a file is
 * written beside its place and renamed, so that one that is cut off leaves what was there.
 */
import {
  closeSync,
  constants,
  createReadStream,
  createWriteStream,
  fchmodSync,
  fsync,
  mkdirSync,
  openSync,
  renameSync,
  rmdirSync,
  type Stats,
  unlinkSync,
} from 'node:fs';
import { lstat, opendir } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { isErrno } from '../../lib/files.ts';
import type { Random } from '../../lib/random.ts';
import type { FileFacts, RunFiles } from '../../lib/session.ts';
import { type Inside, programOf } from './exec.ts';
import { startTicks } from './process.ts';
import { below, notFound, openRoot, type Place, refused, toDriverError, walk } from './walk.ts';

/** More in one folder cannot be listed in one answer. */
const most_entries = 100_000;
const permission_bits = 0o7777;
const folder_mode = 0o755;
const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW, O_RDONLY, O_DIRECTORY } = constants;
const sync = promisify(fsync);

export function filesInside(look: () => Inside, random: Random): RunFiles {
  /** Does something at a place, with everything closed afterwards. */
  function at<T>(path: string, follows: boolean, work: (place: Place) => T): T {
    return atRoot(look, path, (root) => {
      const place = walk(root, path, follows);
      try {
        return work(place);
      } catch (error) {
        throw toDriverError(error, path);
      } finally {
        place.close();
      }
    });
  }

  return {
    stat: async (path) =>
      at(path, true, ({ name, facts }) => factsOf(baseName(path, name), need(facts, path))),
    async list(path) {
      const folder = at(path, true, (place) => keepFolder(folderOf(place, path)));
      try {
        return await entriesOf(folder, path);
      } catch (error) {
        throw toDriverError(error, path);
      } finally {
        closeSync(folder);
      }
    },
    read: async (path, offset) => {
      const file = at(path, true, (place) => openFile(place, path));
      return createReadStream('', { fd: file, start: offset });
    },
    async write(path, content, mode) {
      const tag = Buffer.from(random.bytes(8)).toString('hex');
      const draft = at(path, true, (place) => openDraft(place, path, `.einsora-${tag}`));
      try {
        await fill(draft.file, content, mode);
        renameSync(below(draft.folder, draft.name), below(draft.folder, draft.target));
      } catch (error) {
        content.destroy();
        removeQuietly(below(draft.folder, draft.name));
        throw toDriverError(error, path);
      } finally {
        closeSync(draft.folder);
      }
    },
    makeFolder: async (path) => at(path, false, (place) => makeFolder(place, path)),
    remove: async (path) =>
      at(path, false, ({ folder, name, facts }) => {
        if (name === '.') throw refused(path, 'it is in use');
        if (need(facts, path).isDirectory()) rmdirSync(below(folder, name));
        else unlinkSync(below(folder, name));
      }),
    rename: async (from, to) =>
      at(from, false, (old) => {
        if (old.name === '.') throw refused(from, 'it is in use');
        need(old.facts, from);
        at(to, false, (next) => {
          if (next.name === '.') throw refused(to, 'it is in use');
          renameSync(below(old.folder, old.name), below(next.folder, next.name));
        });
      }),
  };
}

function makeFolder({ folder, name, facts }: Place, path: string): void {
  if (facts !== null) throw refused(path, 'something is there already');
  mkdirSync(below(folder, name), { mode: folder_mode });
  // By its handle: the name may lead elsewhere by now.
  const made = openSync(below(folder, name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  try {
    fchmodSync(made, folder_mode);
  } finally {
    closeSync(made);
  }
}

/** The root is that of the very program that was looked up, not of who has its pid by now. */
function atRoot<T>(look: () => Inside, path: string, work: (root: number) => T): T {
  const { pid, ticks } = programOf(look(), (why) => refused(path, why));
  const root = openRootOf(pid);
  try {
    if (startTicks(pid) !== ticks) throw refused(path, 'it has ended');
    return work(root);
  } finally {
    closeSync(root);
  }
}

function openRootOf(pid: number): number {
  try {
    return openRoot(pid);
  } catch (error) {
    throw isErrno(error, 'ENOENT') || isErrno(error, 'ESRCH') ? notFound('/') : error;
  }
}

function need(facts: Stats | null, path: string): Stats {
  if (facts === null) throw notFound(path);
  return facts;
}

function baseName(path: string, found: string): string {
  return path.split('/').filter(Boolean).at(-1) ?? (found === '.' ? '/' : found);
}

function folderOf(place: Place, path: string): number {
  if (!need(place.facts, path).isDirectory()) throw refused(path, 'it is no folder');
  return place.handle ?? place.folder;
}

async function entriesOf(folder: number, path: string): Promise<FileFacts[]> {
  const entries: FileFacts[] = [];
  for await (const entry of await opendir(`/proc/self/fd/${folder}`)) {
    if (entries.length >= most_entries) throw refused(path, 'it holds too many files');
    const facts = await lstat(below(folder, entry.name)).catch((error) => {
      if (isErrno(error, 'ENOENT')) return null;
      throw error;
    });
    if (facts !== null) entries.push(factsOf(entry.name, facts));
  }
  return entries.sort((one, other) => (one.name < other.name ? -1 : 1));
}

/** A handle of its own on a folder that is held open. */
function keepFolder(folder: number): number {
  return openSync(`/proc/self/fd/${folder}/.`, O_RDONLY | O_DIRECTORY);
}

function factsOf(name: string, stats: Stats): FileFacts {
  const kind = stats.isFile()
    ? 'file'
    : stats.isDirectory()
      ? 'folder'
      : stats.isSymbolicLink()
        ? 'link'
        : 'other';
  const { size, mtimeMs } = stats;
  const mode = stats.mode & permission_bits;
  return { name, kind, size, mode, modified_at: Math.round(mtimeMs) };
}

/** Opens by the handle, so that it is the very file that was looked at. */
function openFile({ handle, facts }: Place, path: string): number {
  if (facts === null || handle === null) throw notFound(path);
  if (facts.isDirectory()) throw refused(path, 'it is a folder');
  if (!facts.isFile()) throw refused(path, 'it is no regular file');
  return openSync(`/proc/self/fd/${handle}`, O_RDONLY);
}

/** A new file beside the place, in a folder that stays open. */
function openDraft({ folder, name, facts }: Place, path: string, draft: string) {
  if (facts?.isDirectory() || name === '.') throw refused(path, 'it is a folder');
  if (facts !== null && !facts.isFile()) throw refused(path, 'it is no regular file');
  const kept = keepFolder(folder);
  try {
    const file = openSync(below(kept, draft), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
    return { file, folder: kept, name: draft, target: name };
  } catch (error) {
    closeSync(kept);
    throw error;
  }
}

async function fill(file: number, content: Readable, mode: number): Promise<void> {
  const writer = createWriteStream('', { fd: file, autoClose: false });
  try {
    await pipeline(content, writer);
    fchmodSync(file, mode & 0o777);
    await sync(file);
  } finally {
    closeSync(file);
  }
}

function removeQuietly(path: string): void {
  try {
    unlinkSync(path);
  } catch {
    // The folder is gone, and the draft with it.
  }
}
