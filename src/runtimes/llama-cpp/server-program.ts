/**
 * A `llama-server` that the machine has already: whether it can be used, and what it needs to run.
 *
 * Invariants: it is used only where its help says that it listens on Unix sockets, so that an
 * endpoint needs no network; it is run with an empty environment, because it reads settings from
 * there.
 */
import { realpathSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Clock } from '../../lib/clock.ts';
import { exec } from '../../lib/exec.ts';
import { findProgram } from '../../lib/which.ts';
import type { Engine, EngineMount } from '../runtime.ts';
import { isSystemPath, ownFiles } from './system-files.ts';

/** Settings that came or changed over the versions: each is passed only where the help names it. */
const optional_flags = [
  '--threads-http',
  '--cache-ram',
  '--no-ui',
  '--no-webui',
  '--no-slots',
  '--metrics',
  '--offline',
  '--cors-origins',
  '--no-kv-unified',
  '--fit',
  '--device',
  '--jinja',
];

const look_timeout_ms = 20_000;

export type ServerLook = { path: string | undefined; clock: Clock };

/** The engine, or why the program on the PATH was passed over; null where there is none. */
export async function findServer(look: ServerLook): Promise<Engine | { why: string } | null> {
  const found = findProgram('llama-server', look.path);
  if (found === null) return null;
  const program = realpathSync(found);
  const options = { env: {}, timeout_ms: look_timeout_ms, clock: look.clock };
  const help = await exec(program, ['--help'], options);
  if (help.outcome !== 'exited' || help.code !== 0) return { why: 'its --help does not work' };
  if (!help.stdout.includes('.sock')) return { why: 'it cannot listen on a Unix socket' };
  const said = await exec(program, ['--version'], options);
  const version = /version:\s*(\S+)/.exec(`${said.stdout}\n${said.stderr}`)?.[1];
  return {
    label: `llama-server ${version ?? '(version unknown)'} at ${found}`,
    dialect: 'llama-server',
    program: [program],
    mounts: await mountsOf(program, look),
    flags: optional_flags.filter((flag) => names(help.stdout, flag)),
  };
}

function names(help: string, flag: string): boolean {
  return new RegExp(`(^|[\\s,])${flag}(?=[\\s,=]|$)`, 'm').test(help);
}

/** Its folder (llama.cpp loads its compute backends from there) and those of its libraries. */
async function mountsOf(program: string, look: ServerLook): Promise<EngineMount[]> {
  const ldd = findProgram('ldd', look.path);
  const folders = [dirname(program)];
  if (ldd !== null) {
    const result = await exec(ldd, [program], { timeout_ms: look_timeout_ms, clock: look.clock });
    for (const [, library = ''] of result.stdout.matchAll(/=> (\/\S+) \(/g)) {
      folders.push(dirname(library));
    }
  }
  return ownFiles(folders.filter((folder) => !isSystemPath(folder)));
}
