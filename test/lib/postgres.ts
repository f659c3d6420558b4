/**
 * A Postgres server of the tests' own: a cluster in a temporary folder that listens on a Unix
 * socket alone, run by a user without rights, and a fresh database for each store.
 *
 * Invariants: `npm test` starts one for all its files (EINSORA_TEST_POSTGRES says where); a file
 * run by itself starts its own; either is gone when its owner ends, however it ends. Nothing is
 * fetched, and no server of the machine is touched.
 */
import { existsSync, globSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../src/lib/clock.ts';
import { exec, spawnChild } from '../../src/lib/exec.ts';
import { Secret } from '../../src/lib/secret.ts';
import { findProgram } from '../../src/lib/which.ts';
import { connectPostgres } from '../../src/store/postgres.ts';

const variable = 'EINSORA_TEST_POSTGRES';
const ending_signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

export type Cluster = {
  folder: string;
  /** kill -9 of the server. */
  crash(): Promise<void>;
  restart(): Promise<void>;
  stop(): Promise<void>;
};

/** The folder of a server's programs, or null. */
export function findPostgres(): string | null {
  const path = findProgram('initdb', process.env.PATH);
  const folders = [
    ...(path === null ? [] : [join(path, '..')]),
    ...globSync('/usr/lib/postgresql/*/bin').sort().reverse(),
  ];
  const whole = (folder: string) => existsSync(join(folder, 'postgres'));
  return folders.find((folder) => existsSync(join(folder, 'initdb')) && whole(folder)) ?? null;
}

/** A server with data of its own. `durable` waits for the disk as in production; tests need not. */
export async function startCluster(options: { durable?: boolean } = {}): Promise<Cluster> {
  const programs = findPostgres();
  if (programs === null) throw new Error('there is no Postgres on this machine');
  const folder = mkdtempSync(join(tmpdir(), 'einsora-pg-'));
  const [command, ...as] = await asPlainUser(folder);
  const data = join(folder, 'data');
  const made = await run(command, [
    ...[...as, join(programs, 'initdb'), '-D', data, '-U', 'einsora', '--auth=trust'],
    ...['--encoding=UTF8', '--locale=C', '--no-sync', '--no-instructions'],
  ]);
  if (made.code !== 0) throw new Error(`initdb failed: ${made.stdout}${made.stderr}`);
  const careless = ['-c', 'fsync=off', '-c', 'full_page_writes=off'];
  const start = () =>
    startServer(folder, command, [
      ...[...as, join(programs, 'postgres'), '-D', data, '-k', folder],
      ...['-c', 'listen_addresses=', '-c', 'max_connections=200', '-c', 'shared_buffers=64MB'],
      ...['-c', 'autovacuum=off', '-c', 'log_min_messages=fatal'],
      ...(options.durable ? [] : careless),
    ]);
  let server = await start();
  const removeAtExit = () => {
    server.kill('SIGQUIT');
    removeFolder(folder);
  };
  process.once('exit', removeAtExit);
  // A signal would else end the process without its exit.
  const onSignal = () => process.exit(1);
  for (const signal of ending_signals) process.once(signal, onSignal);
  return {
    folder,
    async crash() {
      server.kill('SIGKILL');
      await server.ended;
    },
    async restart() {
      server = await start();
    },
    async stop() {
      process.off('exit', removeAtExit);
      for (const signal of ending_signals) process.off(signal, onSignal);
      server.kill('SIGQUIT');
      await server.ended;
      removeFolder(folder);
    },
  };
}

async function startServer(folder: string, command: string, args: string[]) {
  const server = spawnChild(command, args, { env: { PATH: process.env.PATH, LC_ALL: 'C' } });
  let said = '';
  server.stderr?.on('data', (chunk) => {
    said = `${said}${chunk}`.slice(-2000);
  });
  // The process goes on only as long as there is more to do than to keep the server.
  server.unref();
  for (const stream of [server.stdout, server.stderr]) (stream as { unref?(): void })?.unref?.();
  await untilItAnswers(folder, () => said);
  return {
    kill: (signal: NodeJS.Signals) => server.kill(signal),
    get ended(): Promise<void> {
      server.ref();
      if (server.exitCode !== null || server.signalCode !== null) return Promise.resolve();
      return new Promise((resolve) => server.once('exit', () => resolve()));
    },
  };
}

/** A server that ends may write a last file while its folder goes. */
function removeFolder(folder: string): void {
  for (let attempt = 1; existsSync(folder) && attempt < 100; attempt += 1) {
    rmSync(folder, { recursive: true, force: true });
    if (existsSync(folder)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
  }
}

async function untilItAnswers(folder: string, said: () => string): Promise<void> {
  const deadline = systemClock.monotonic() + 30_000;
  for (;;) {
    try {
      const connection = await connectPostgres(new Secret(urlOf(folder, 'postgres')));
      return await connection.end();
    } catch (error) {
      if (systemClock.monotonic() > deadline) throw new Error(`${said()}${String(error)}`);
      await systemClock.sleep(50);
    }
  }
}

/** Words that run a command as a user whom initdb accepts, and who ends with this process. */
async function asPlainUser(folder: string): Promise<[string, ...string[]]> {
  const setpriv = findProgram('setpriv', process.env.PATH);
  if (process.getuid?.() !== 0) {
    return setpriv === null ? ['env'] : [setpriv, '--pdeathsig', 'QUIT'];
  }
  if (setpriv === null) throw new Error('setpriv is needed to run Postgres as another user');
  const uid = await run('id', ['-u', 'nobody']);
  const gid = await run('id', ['-g', 'nobody']);
  const owner = `${uid.stdout.trim()}:${gid.stdout.trim()}`;
  await run('chown', [owner, folder]);
  const [user = '', group = ''] = owner.split(':');
  const who = ['--reuid', user, '--regid', group, '--clear-groups', '--pdeathsig', 'QUIT'];
  return [setpriv, ...who];
}

function run(command: string, args: string[]) {
  return exec(command, args, { env: { PATH: process.env.PATH ?? '' }, timeout_ms: 60_000 });
}

/** The address of a database whose server listens in a folder. */
export function urlOf(folder: string, database: string): string {
  return `postgres://einsora@/${database}?host=${encodeURIComponent(folder)}`;
}

let shared: Promise<string> | null = null;

/** The folder of the server that this run's tests share. */
function sharedFolder(): Promise<string> {
  const given = process.env[variable];
  if (given && statSync(given, { throwIfNoEntry: false })) return Promise.resolve(given);
  shared ??= startCluster().then(({ folder }) => folder);
  return shared;
}

/** For the one who starts the test files: one server for all of them, told by the environment. */
export async function shareCluster(): Promise<() => Promise<void>> {
  const cluster = await startCluster();
  process.env[variable] = cluster.folder;
  return cluster.stop;
}

export type TestDatabase = {
  url: Secret;
  name: string;
  /** The folder of the server's socket. */
  at: string;
  free(): Promise<void>;
};

let made = 0;
/** Emptied and ready for the next: making one takes ten times as long. */
const ready: string[] = [];

/** An empty database, on the shared server unless another is given. */
export async function createDatabase(folder?: string): Promise<TestDatabase> {
  const where = folder ?? (await sharedFolder());
  const name = (folder === undefined ? ready.pop() : undefined) ?? (await makeDatabase(where));
  return {
    name,
    at: where,
    url: new Secret(urlOf(where, name)),
    async free() {
      if (folder !== undefined) return;
      await administer(where, 'drop schema public cascade; create schema public', name);
      ready.push(name);
    },
  };
}

async function makeDatabase(where: string): Promise<string> {
  made += 1;
  // Process ids come again in a long run; moments do not.
  const name = `t${Date.now()}${process.pid}_${made}`;
  await administer(where, `create database ${name}`);
  return name;
}

/** Runs a statement as the server's owner. */
export async function administer(
  folder: string,
  text: string,
  database = 'postgres',
): Promise<void> {
  const connection = await connectPostgres(new Secret(urlOf(folder, database)));
  try {
    await connection.tell(text);
  } finally {
    await connection.end();
  }
}
