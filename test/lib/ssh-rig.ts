/**
 * Our SSH server on a port of its own, with a folder of this machine in place of a run, and the
 * real OpenSSH client before it.
 *
 * Invariants: what is started is ended by `close`; the client reads no settings, keys or agents of
 * whoever runs the tests.
 */
import { generateKeyPairSync } from 'node:crypto';
import { createReadStream, createWriteStream, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { chmod, lstat, mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import type { Duplex, Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { hostKeyLine, readHostKey } from '../../src/access/ssh/host-key.ts';
import { createSshServer, type Inside, type Served } from '../../src/access/ssh/server.ts';
import { parseAuthorizedKeys } from '../../src/core/ssh-key.ts';
import { DriverError } from '../../src/drivers/driver.ts';
import { type Clock, systemClock } from '../../src/lib/clock.ts';
import { type ExecResult, exec, killGroup, type Spawned } from '../../src/lib/exec.ts';
import { isErrno } from '../../src/lib/files.ts';
import { spawnOnPipes } from '../../src/lib/pipes.ts';
import { type OnTerminal, spawnOnTerminal, type TerminalSize } from '../../src/lib/pty.ts';
import type { ExecAsk, ExecSession, FileFacts, RunFiles } from '../../src/lib/session.ts';
import { toSession } from '../../src/lib/spawned-session.ts';
import { keepingLog, type LogLine } from './rig.ts';

export type SshRig = {
  port: number;
  /** Files of the "run". */
  root: string;
  /** Keys, known hosts and the like of the client. */
  folder: string;
  known_hosts: string;
  lines: LogLine[];
  served: Served[];
  /** Options of every client: nothing of this machine's own. */
  options: string[];
  /** `first`: options that win over those of the rig. */
  ssh(
    args: string[],
    how?: { input?: string; timeout_ms?: number; first?: string[] },
  ): Promise<ExecResult>;
  run(program: string, args: string[], how?: { timeout_ms?: number }): Promise<ExecResult>;
  close(): Promise<void>;
};

export type RigOptions = {
  /** Text of public keys that must sign. */
  keys?: string;
  inside?: Partial<Inside>;
  clock?: Clock;
  user_id?: string;
};

export async function createSshRig(options: RigOptions = {}): Promise<SshRig> {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-ssh-'));
  const root = join(folder, 'run');
  mkdirSync(join(root, 'workspace'), { recursive: true });
  const pem = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' });
  const host_key = readHostKey(String(pem));
  const clock = options.clock ?? systemClock;
  const ssh = createSshServer({ host_key, clock });
  const lines: LogLine[] = [];
  const served: Served[] = [];
  const keys = options.keys === undefined ? null : parseAuthorizedKeys(options.keys);
  if (typeof keys === 'string') throw new Error(keys);
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', () => socket.destroy());
    sockets.add(socket);
    const visit = {
      ...{ socket, keys, user_id: options.user_id ?? 'ada', log: keepingLog(lines) },
      inside: { ...insideOf(root), ...options.inside },
      greeting: '',
      used: () => {},
      explain: (error: unknown) => (error as Error).message,
      signedIn: () => lines.push({ level: 'info', message: 'signed in' }),
    };
    try {
      served.push(ssh.serve(visit));
    } catch {
      socket.destroy();
    }
  });
  const port = await listen(server);
  const known_hosts = join(folder, 'known hosts');
  await writeFile(known_hosts, `[127.0.0.1]:${port} ${hostKeyLine(host_key)}\n`);
  const settings = clientOptions(known_hosts);
  const run = (program: string, args: string[], how: { timeout_ms?: number } = {}) =>
    exec(program, args, { env: clientEnv(folder), timeout_ms: how.timeout_ms ?? 20_000 });
  return {
    ...{ port, root, folder, known_hosts, lines, served, options: settings, run },
    ssh: (args, how = {}) =>
      exec(
        'ssh',
        [...(how.first ?? []), ...settings, '-p', String(port), 'me@127.0.0.1', ...args],
        {
          env: clientEnv(folder),
          timeout_ms: how.timeout_ms ?? 20_000,
          ...(how.input === undefined ? {} : { input: how.input }),
          output_limit_bytes: 64 * 1024 * 1024,
        },
      ),
    async close() {
      await Promise.race([ssh.close(), systemClock.sleep(400)]);
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export function clientOptions(known_hosts: string): string[] {
  const settings = {
    ...{ UserKnownHostsFile: `"${known_hosts}"`, GlobalKnownHostsFile: '/dev/null' },
    ...{ StrictHostKeyChecking: 'yes', BatchMode: 'yes', IdentityFile: 'none' },
    ...{ IdentitiesOnly: 'yes', ConnectTimeout: '10' },
  };
  return [
    '-F',
    'none',
    ...Object.entries(settings).flatMap(([name, to]) => ['-o', `${name}=${to}`]),
  ];
}

export function clientEnv(folder: string): Record<string, string> {
  return { PATH: process.env.PATH ?? '', HOME: folder, LANG: 'C.UTF-8' };
}

/** A key pair made by OpenSSH; resolves with the path of the private key. */
export async function makeKey(folder: string, name: string, args: string[]): Promise<string> {
  const path = join(folder, name);
  const all = ['-q', '-N', '', '-C', 'a comment', '-f', path, ...args];
  const made = await exec('ssh-keygen', all, { env: clientEnv(folder), timeout_ms: 30_000 });
  if (made.code !== 0) throw new Error(made.stderr);
  return path;
}

function listen(server: Server): Promise<number> {
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port));
  });
}

/** A folder of this machine in place of a run. */
export function insideOf(root: string): Inside {
  return {
    exec: (ask) => startHere(root, ask),
    files: async () => localFiles(root),
    connect: (port) =>
      new Promise<Duplex>((resolve, reject) => {
        const socket = connect(port, '127.0.0.1', () => resolve(socket));
        socket.once('error', reject);
      }),
  };
}

async function startHere(root: string, ask: ExecAsk): Promise<ExecSession> {
  const [command = '/bin/bash', ...args] = ask.argv.length === 0 ? ['/bin/bash', '-l'] : ask.argv;
  const cwd = join(root, 'workspace');
  const env = { PATH: process.env.PATH ?? '', HOME: root, PS1: '$ ', ...ask.env };
  const size = ask.terminal;
  if (size === null) {
    const spawned = await startPiped(command, args, { env, cwd, folder: root });
    return toSession(spawned, {
      clock: systemClock,
      kill: () => killGroup(spawned.pid, 'SIGKILL'),
    });
  }
  const spawned = inTerminal(command, args, { cwd, env, size });
  const kill = () => killGroup(spawned.pid, 'SIGKILL');
  return toSession(spawned, { clock: systemClock, kill, resize: (to) => spawned.resize(to) });
}

/** A program that leads a session of its own, whose terminal it is. */
export function inTerminal(
  command: string,
  args: string[],
  options: { env: Record<string, string>; cwd: string; size: TerminalSize },
): OnTerminal {
  return spawnOnTerminal('setsid', ['--ctty', '--wait', command, ...args], options);
}

let tags = 0;

/** A program whose streams are in the test's hands. */
export function startPiped(
  command: string,
  args: string[],
  where: { env: Record<string, string>; cwd: string; folder: string },
): Promise<Spawned> {
  tags += 1;
  return spawnOnPipes(command, args, { ...where, tag: `ssh-${tags}` });
}

/** Files below a folder as if it were a run's root. */
export function localFiles(root: string): RunFiles {
  const at = (path: string) => join(root, path);
  const known = <T>(work: Promise<T>) =>
    work.catch((error: unknown) => {
      if (isErrno(error, 'ENOENT')) throw new DriverError('file_not_found', 'there is none');
      throw error;
    });
  const factsOf = async (path: string): Promise<FileFacts> => {
    const facts = await lstat(path);
    const kind = facts.isFile() ? 'file' : facts.isDirectory() ? 'folder' : 'other';
    const { size, mode, mtimeMs } = facts;
    const name = basename(path);
    return { name, kind: facts.isSymbolicLink() ? 'link' : kind, size, mode, modified_at: mtimeMs };
  };
  return {
    stat: (path) => known(stat(at(path)).then(() => factsOf(at(path)))),
    async list(path) {
      const names = await known(readdir(at(path)));
      return Promise.all(names.map((name) => factsOf(join(at(path), name))));
    },
    async read(path, offset) {
      await known(stat(at(path)));
      return createReadStream(at(path), { start: offset });
    },
    async write(path: string, content: Readable, mode: number) {
      const temporary = `${at(path)}.part`;
      try {
        await known(pipeline(content, createWriteStream(temporary)));
        await chmod(temporary, mode);
        await rename(temporary, at(path));
      } catch (error) {
        await rm(temporary, { force: true });
        throw error;
      }
    },
    makeFolder: async (path) => void (await known(mkdir(at(path)))),
    remove: (path) => known(rm(at(path), { recursive: true })),
    rename: (from, to) => known(rename(at(from), at(to))),
  };
}
