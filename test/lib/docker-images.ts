/**
 * Images for tests, made out of what the machine has, without any registry.
 *
 * Invariants: an image is named by what it is made of, so that a second run finds it in the engine
 * and makes nothing; what was put together for it is removed.
 */
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Engine } from '../../src/drivers/docker/engine.ts';
import { exec } from '../../src/lib/exec.ts';
import { digest } from '../../src/lib/secret.ts';
import { findProgram } from '../../src/lib/which.ts';

export type TestImage = {
  /** Puts its files below `root`. */
  fill(root: string): void | Promise<void>;
  /** Of what it is made, so that it is made anew when that changes. */
  of: string;
  /** What a Dockerfile would say. */
  changes?: string[];
};

const recipe = 4;

/** The image's name, once the engine has it. */
export async function testImage(engine: Engine, name: string, image: TestImage): Promise<string> {
  const { of, changes = [] } = image;
  const tag = digest(JSON.stringify([recipe, of, changes])).slice(0, 16);
  const repository = `localhost/einsora-test/${name}`;
  const reference = `${repository}:${tag}`;
  if (await hasImage(engine, reference)) return reference;
  const folder = mkdtempSync(join(tmpdir(), 'einsora-image-'));
  try {
    const root = join(folder, 'root');
    mkdirSync(root);
    chmodSync(root, 0o755);
    await image.fill(root);
    const archive = join(folder, 'image.tar');
    const args = ['-c', '--numeric-owner', '-f', archive, '-C', root, '.'];
    const packed = await exec('tar', args, { timeout_ms: 300_000 });
    if (packed.code !== 0) throw new Error(`no archive: ${packed.stderr}`);
    await importArchive(engine, archive, { repo: repository, tag, changes });
  } finally {
    rmSync(folder, { recursive: true });
  }
  return reference;
}

/** The shell, the C library and what Node needs, which is then shown from the machine. */
export function smallImage(engine: Engine, name = 'small', changes: string[] = []) {
  const busybox = staticBusybox();
  if (busybox === null) throw new Error('busybox-static is not installed');
  const of = `${digest(readFileSync(busybox))} ${statSync(process.execPath).size}`;
  return testImage(engine, name, { of, changes, fill: (root) => fillSmall(root, busybox) });
}

/** One program, and nothing beside it: no shell. */
export function shellessImage(engine: Engine) {
  const busybox = staticBusybox();
  if (busybox === null) throw new Error('busybox-static is not installed');
  return testImage(engine, 'shell-less', {
    of: digest(readFileSync(busybox)),
    fill(root) {
      mkdirSync(join(root, 'etc'));
      mkdirSync(join(root, 'app'));
      writeFileSync(join(root, 'etc/passwd'), 'root:x:0:0:root:/:/none\n');
      // Under this name it is this one program only.
      copyFileSync(busybox, join(root, 'app/sleep'));
      writeFileSync(join(root, 'app/note.txt'), 'no shell here\n');
    },
  });
}

/** busybox, where it is one that needs no library. */
export function staticBusybox(): string | null {
  const path = findProgram('busybox', process.env.PATH);
  if (path === null) return null;
  const bytes = readFileSync(realpathSync(path));
  return bytes.includes('/lib64/ld-linux') ? null : path;
}

async function fillSmall(root: string, busybox: string): Promise<void> {
  for (const name of ['bin', 'etc', 'tmp', 'root', 'home', 'opt', 'run', 'proc', 'sys', 'dev']) {
    mkdirSync(join(root, name));
  }
  chmodSync(join(root, 'tmp'), 0o1777);
  copyFileSync(busybox, join(root, 'bin/busybox'));
  const listed = await exec(busybox, ['--list'], { timeout_ms: 10_000 });
  for (const name of listed.stdout.trim().split('\n')) {
    if (name !== 'busybox') symlinkSync('busybox', join(root, 'bin', name));
  }
  // Debian's busybox lacks it, and every real system has it.
  const printenv = '#!/bin/sh\nenv | sed -n "s/^$1=//p"\n';
  writeFileSync(join(root, 'bin/printenv'), printenv, { mode: 0o755 });
  const users = ['root:x:0:0:root:/root:/bin/sh', 'user:x:1000:1000::/home:/bin/sh', ''];
  writeFileSync(join(root, 'etc/passwd'), users.join('\n'));
  writeFileSync(join(root, 'etc/group'), 'root:x:0:\nuser:x:1000:\n');
  for (const library of await librariesOf(process.execPath)) {
    mkdirSync(join(root, dirname(library)), { recursive: true });
    copyFileSync(library, join(root, library));
  }
}

/** The shared libraries that a program loads, its loader among them. */
async function librariesOf(program: string): Promise<string[]> {
  const { stdout } = await exec('ldd', [program], { timeout_ms: 10_000 });
  return [...stdout.matchAll(/(?:=> )?(\/\S+) \(0x/g)].map(([, path = '']) => path);
}

export async function hasImage(engine: Engine, reference: string): Promise<boolean> {
  try {
    await engine.json({ method: 'GET', path: `/images/${reference}/json` });
    return true;
  } catch {
    return false;
  }
}

async function importArchive(
  engine: Engine,
  archive: string,
  { repo, tag, changes }: { repo: string; tag: string; changes: string[] },
): Promise<void> {
  const words = ['ENV PATH=/bin:/usr/bin', ...changes].flatMap((change) => ['-c', change]);
  const host = `unix://${engine.socket_path}`;
  const args = ['-H', host, 'import', ...words, archive, `${repo}:${tag}`];
  const done = await exec('docker', args, {
    timeout_ms: 300_000,
    env: { PATH: process.env.PATH ?? '', HOME: tmpdir() },
  });
  if (done.code !== 0) throw new Error(`docker import: ${done.stderr}`);
}
