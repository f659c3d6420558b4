/**
 * The files of a run over SFTP, so that scp, sftp and editors work with any image: nothing of it
 * runs inside.
 *
 * Invariants: requests are answered in their order, each once; a refusal says why; what a client
 * leaves open is abandoned, and a half-written file with it.
 */
import { posix } from 'node:path';
import { workspace_target } from '../../core/images.ts';
import type { FileFacts, RunFiles } from '../../lib/session.ts';
import type { Channel } from './channel.ts';
import { folderHandle, type Handle, readHandle, Unsupported, writeHandle } from './sftp-handles.ts';
import * as wire from './sftp-wire.ts';

const { ask, status, open_flags } = wire;
const path_chars = 4096;

/** Serves until the client is done; closes the channel. */
export async function serveSftp(
  channel: Channel,
  openFiles: () => Promise<RunFiles>,
  explain: (error: unknown) => string,
): Promise<void> {
  const handles = new Map<string, Handle>();
  try {
    const files = await openFiles();
    const server = new SftpServer(files, handles);
    for await (const bytes of wire.splitRequests(channel.input)) {
      const answer = await answerOf(server, new wire.Fields(bytes), explain);
      if (!(await channel.write(answer))) break;
    }
    channel.finish({ code: 0, signal: null });
  } catch (error) {
    await channel.write(Buffer.from(`einsora: ${explain(error)}\n`), 'stderr');
    channel.finish({ code: 255, signal: null });
  } finally {
    for (const handle of handles.values()) handle.abandon();
    channel.input.destroy();
  }
}

async function answerOf(
  server: SftpServer,
  fields: wire.Fields,
  explain: (error: unknown) => string,
): Promise<Buffer> {
  const type = fields.byte();
  if (type === ask.init) return wire.versionMessage();
  const id = fields.number();
  try {
    return await server.serve(type, id, fields);
  } catch (error) {
    if (error instanceof wire.Malformed) throw error;
    if (error instanceof Refused) return wire.statusMessage(id, error.code, error.message);
    if (error instanceof Unsupported) {
      return wire.statusMessage(id, status.unsupported, error.message);
    }
    return wire.statusMessage(id, statusOf(error), explain(error));
  }
}

class Refused extends Error {
  readonly code: number;
  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

function statusOf(error: unknown): number {
  const { code } = error as { code?: string };
  if (code === 'file_not_found') return status.not_found;
  return code === 'file_refused' ? status.refused : status.failure;
}

class SftpServer {
  readonly #files: RunFiles;
  readonly #handles: Map<string, Handle>;
  #numbered = 0;
  #home: string | null = null;

  constructor(files: RunFiles, handles: Map<string, Handle>) {
    this.#files = files;
    this.#handles = handles;
  }

  async serve(type: number, id: number, fields: wire.Fields): Promise<Buffer> {
    if (type === ask.read) return this.#read(id, fields);
    if (type === ask.write) return this.#write(id, fields);
    if (type === ask.open) return this.#open(id, fields);
    if (type === ask.close) return this.#close(id, fields);
    if (type === ask.opendir) return this.#openFolder(id, fields);
    if (type === ask.readdir) return this.#readFolder(id, fields);
    if (type === ask.fstat) return this.#statOpen(id, fields);
    if (type === ask.fsetstat) return this.#setOpen(id, fields);
    if (type !== ask.extended) return this.#byPath(type, id, await this.#pathOf(fields), fields);
    const name = fields.text();
    if (name === 'limits@openssh.com') return wire.limitsMessage(id);
    if (name !== 'posix-rename@openssh.com') throw new Unsupported(`no ${name} here`);
    return this.#rename(id, await this.#pathOf(fields), await this.#pathOf(fields), true);
  }

  async #byPath(type: number, id: number, path: string, fields: wire.Fields): Promise<Buffer> {
    const files = this.#files;
    if (type === ask.stat || type === ask.lstat) {
      return wire.attributesMessage(id, await files.stat(path));
    }
    if (type === ask.realpath) return wire.pathMessage(id, path);
    if (type === ask.rename) return this.#rename(id, path, await this.#pathOf(fields), false);
    if (type === ask.setstat) {
      // Times, owners and modes stay as they are, which clients take for done.
      if (fields.attributes().size !== null) throw new Unsupported('a file cannot be cut off');
      await files.stat(path);
    } else if (type === ask.mkdir) {
      if ((await this.#factsOf(path)) !== null) throw new Refused(status.failure, 'it exists');
      await files.makeFolder(path);
    } else if (type === ask.remove || type === ask.rmdir) {
      await this.#remove(path, type === ask.rmdir);
    } else {
      throw new Unsupported('links are neither read nor made here');
    }
    return fine(id);
  }

  async #remove(path: string, is_folder: boolean): Promise<void> {
    const { kind } = await this.#files.stat(path);
    if ((kind === 'folder') !== is_folder) {
      throw new Refused(status.failure, is_folder ? 'it is no folder' : 'it is a folder');
    }
    if (is_folder && (await this.#files.list(path)).length > 0) {
      throw new Refused(status.failure, 'it is not empty');
    }
    await this.#files.remove(path);
  }

  async #rename(id: number, from: string, to: string, replaces: boolean): Promise<Buffer> {
    if (!replaces && (await this.#factsOf(to)) !== null) {
      throw new Refused(status.failure, 'it exists');
    }
    await this.#files.rename(from, to);
    return fine(id);
  }

  async #open(id: number, fields: wire.Fields): Promise<Buffer> {
    const path = await this.#pathOf(fields);
    const flags = fields.number();
    const { mode } = fields.attributes();
    const facts = await this.#factsOf(path);
    if (facts?.kind === 'folder') throw new Refused(status.failure, 'it is a folder');
    if (facts === null && (flags & open_flags.create) === 0) {
      throw new Refused(status.not_found, 'there is no such file');
    }
    if ((flags & open_flags.write) === 0) return this.#keep(id, readHandle(this.#files, path));
    if (flags & open_flags.read) throw new Unsupported('a file is read or written, not both');
    if (facts !== null && flags & open_flags.exclusive) {
      throw new Refused(status.failure, 'it exists');
    }
    // As a shell's files would be: others may not write, whatever the client's own file allows.
    const new_mode = facts?.mode ?? (mode ?? 0o644) & 0o755;
    const old_size = flags & open_flags.truncate ? 0 : (facts?.size ?? 0);
    const how = { mode: new_mode & 0o777, old_size, append: (flags & open_flags.append) !== 0 };
    return this.#keep(id, () => writeHandle(this.#files, path, how));
  }

  async #read(id: number, fields: wire.Fields): Promise<Buffer> {
    const [, handle] = this.#handleOf(fields);
    const offset = fields.long();
    const length = Math.min(fields.number(), wire.data_bytes);
    if (handle.read === undefined) throw new Refused(status.failure, 'it is not open for reading');
    const data = await handle.read(offset, length);
    return data === null ? end(id) : wire.dataMessage(id, data);
  }

  async #write(id: number, fields: wire.Fields): Promise<Buffer> {
    const [, handle] = this.#handleOf(fields);
    const offset = fields.long();
    if (handle.write === undefined) throw new Refused(status.failure, 'it is not open for writing');
    await handle.write(offset, fields.bytes());
    return fine(id);
  }

  async #close(id: number, fields: wire.Fields): Promise<Buffer> {
    const [name, handle] = this.#handleOf(fields);
    this.#handles.delete(name);
    await handle.close();
    return fine(id);
  }

  async #statOpen(id: number, fields: wire.Fields): Promise<Buffer> {
    const [, { path, size }] = this.#handleOf(fields);
    const facts = (await this.#factsOf(path)) ?? unwritten;
    return wire.attributesMessage(id, size === undefined ? facts : { ...facts, size: size() });
  }

  async #setOpen(id: number, fields: wire.Fields): Promise<Buffer> {
    const [, handle] = this.#handleOf(fields);
    const { size } = fields.attributes();
    if (size === null) return fine(id);
    if (handle.setSize === undefined) throw new Unsupported('a file cannot be cut off');
    handle.setSize(size);
    return fine(id);
  }

  async #openFolder(id: number, fields: wire.Fields): Promise<Buffer> {
    const path = await this.#pathOf(fields);
    return this.#keep(id, folderHandle(path, await this.#files.list(path)));
  }

  async #readFolder(id: number, fields: wire.Fields): Promise<Buffer> {
    const [, handle] = this.#handleOf(fields);
    if (handle.entries === undefined) throw new Refused(status.failure, 'it is no folder');
    const entries = handle.entries();
    return entries === null ? end(id) : wire.namesMessage(id, entries);
  }

  #keep(id: number, made: Handle | (() => Handle)): Buffer {
    if (this.#handles.size >= wire.handles_at_most) {
      throw new Refused(status.failure, `${wire.handles_at_most} files are open already`);
    }
    this.#numbered += 1;
    this.#handles.set(String(this.#numbered), typeof made === 'function' ? made() : made);
    return wire.handleMessage(id, String(this.#numbered));
  }

  #handleOf(fields: wire.Fields): [string, Handle] {
    const name = fields.text();
    const handle = this.#handles.get(name);
    if (handle === undefined) throw new Refused(status.failure, 'there is no such handle');
    return [name, handle];
  }

  /** Relative paths begin where a shell would. */
  async #pathOf(fields: wire.Fields): Promise<string> {
    const given = fields.text();
    if (given.length > path_chars || given.includes('\0')) {
      throw new Refused(status.failure, 'that is no path');
    }
    if (given.startsWith('/')) return tidy(given);
    const workspace = this.#home ?? (await this.#factsOf(workspace_target));
    if (typeof workspace !== 'string') {
      this.#home = workspace?.kind === 'folder' ? workspace_target : '/';
    }
    return tidy(posix.join(this.#home ?? '/', given));
  }

  async #factsOf(path: string): Promise<FileFacts | null> {
    try {
      return await this.#files.stat(path);
    } catch (error) {
      if (statusOf(error) === status.not_found) return null;
      throw error;
    }
  }
}

/** A file whose first bytes are on their way. */
const unwritten: FileFacts = { name: '', kind: 'file', size: 0, mode: 0o644, modified_at: 0 };

function fine(id: number): Buffer {
  return wire.statusMessage(id, status.ok, '');
}

function end(id: number): Buffer {
  return wire.statusMessage(id, status.eof, 'nothing follows');
}

function tidy(path: string): string {
  const clean = posix.normalize(path);
  return clean.length > 1 && clean.endsWith('/') ? clean.slice(0, -1) : clean;
}
