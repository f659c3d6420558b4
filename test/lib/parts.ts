/**
 * Parts of a machine that some tests need: used as a test's options, they skip it where a part is
 * missing, and say so.
 *
 * Invariants: a part named in EINSORA_REQUIRE (names with commas) is never skipped: where it is
 * missing, its tests run and fail.
 */
import { existsSync, readFileSync } from 'node:fs';
import { createEngine } from '../../src/drivers/docker/engine.ts';
import { detectCaps, readCapsSnapshot } from '../../src/drivers/native/cgroup.ts';
import type { BwrapFinder } from '../../src/drivers/native/sandbox.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { exec } from '../../src/lib/exec.ts';
import { findProgram } from '../../src/lib/which.ts';
import { staticBusybox } from './docker-images.ts';
import { findPostgres } from './postgres.ts';

export type Part = keyof typeof parts;

/** Where the machine's Docker Engine listens. */
export const docker_socket = '/var/run/docker.sock';

/** Where Debian puts the browser. */
export const chromium = '/usr/bin/chromium';

/** bubblewrap from the PATH, or the one that EINSORA_TEST_BWRAP names. */
export const testBwrap: BwrapFinder = {
  async find() {
    const path = process.env.EINSORA_TEST_BWRAP ?? findProgram('bwrap', process.env.PATH);
    if (path === null) return { missing: 'bubblewrap is not installed' };
    const asked = await exec(path, ['--version'], { timeout_ms: 5000 });
    const version = /(\d+\.\d+\.\d+)/.exec(asked.stdout)?.[1];
    return version === undefined ? { missing: `${path} does not work` } : { path, version };
  },
};

const parts = {
  bwrap: async () => 'path' in (await testBwrap.find()),
  cgroup: async () => detectCaps(readCapsSnapshot('/usr/bin/systemd-run')).way !== 'none',
  python: async () => hasPython(),
  // Both are fetched by the machine's Python into the tests' cache.
  llama: async () => hasPython(),
  smollm2: async () => hasPython(),
  // A Python that has them: they are too large to fetch.
  mlx: async () => existsSync(process.env.EINSORA_TEST_MLX ?? ''),
  vllm: async () => existsSync(process.env.EINSORA_TEST_VLLM ?? ''),
  tmpfs: async () => canMount(),
  chromium: async () => existsSync(chromium),
  postgres: async () => findPostgres() !== null && (await canBePlainUser()),
  docker: async () => hasDocker(),
  debootstrap: async () =>
    findProgram('debootstrap', process.env.PATH) !== null && process.getuid?.() === 0,
  // To set rules, and hosts of their own to send packets between.
  nft: async () => process.getuid?.() === 0 && hasAll('nft', 'ip', 'nsenter'),
  bash: async () => findProgram('bash', process.env.PATH) !== null,
  // Four thousand streams have four ends each.
  files: async () => openFilesLimit() >= 17_000,
  // OpenSSH's own clients.
  ssh: async () => hasAll('ssh', 'scp', 'sftp', 'ssh-keygen'),
} satisfies Record<string, () => Promise<boolean>>;

function hasAll(...names: string[]): boolean {
  return names.every((name) => findProgram(name, process.env.PATH) !== null);
}

async function hasPython(): Promise<boolean> {
  const asked = await exec('python3', ['-c', 'import sys; sys.exit(sys.version_info < (3, 10))'], {
    env: { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '/' },
    timeout_ms: 10_000,
  });
  return asked.code === 0;
}

/** An engine that answers, and what the tests' images are made of. */
async function hasDocker(): Promise<boolean> {
  if (staticBusybox() === null || findProgram('docker', process.env.PATH) === null) return false;
  return createEngine(docker_socket, systemClock)
    .version()
    .then(
      () => true,
      () => false,
    );
}

/** Files and sockets that this process may have open. */
function openFilesLimit(): number {
  if (!existsSync('/proc/self/limits')) return 0;
  const limits = readFileSync('/proc/self/limits', 'utf8');
  return Number(/^Max open files +(\d+)/m.exec(limits)?.[1] ?? 0);
}

/** Postgres refuses to run as root. */
async function canBePlainUser(): Promise<boolean> {
  return process.getuid?.() !== 0 || findProgram('setpriv', process.env.PATH) !== null;
}

async function canMount(): Promise<boolean> {
  const args = ['-m', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt'];
  return (await exec('unshare', args, { timeout_ms: 5000 })).code === 0;
}

const required = (process.env.EINSORA_REQUIRE ?? '').split(',').map((name) => name.trim());
const present = new Map<string, boolean>();
for (const [name, isThere] of Object.entries(parts)) present.set(name, await isThere());

/** The options of a test that needs these parts. */
export function needs(...names: Part[]): { skip: string | false } {
  const missing = names.filter((name) => !present.get(name) && !required.includes(name));
  return { skip: missing.length > 0 && `this machine lacks: ${missing.join(', ')}` };
}
