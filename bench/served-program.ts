/**
 * Starts a program that serves, for benches: how long until it answers, what it holds, its end.
 *
 * Invariants: a program that was started is ended, group of children included, whatever happens;
 * one that never answers is an error with the end of what it printed.
 */
import { globSync, readFileSync } from 'node:fs';
import { request } from 'node:http';
import { createServer } from 'node:net';
import { systemClock } from '../src/lib/clock.ts';
import { spawnChild } from '../src/lib/exec.ts';

export type Served = {
  /** From the start of the process to the first 200. */
  ready_ms: number;
  pid: number;
  stop(): Promise<void>;
};

type Program = { command: string; args: string[]; url: string; env?: Record<string, string> };

const poll_ms = 5;
/** Of the kernel's accounts. */
const tick_ms = 10;
const stop_grace_ms = 20_000;

export async function serve(program: Program, timeout_ms: number): Promise<Served> {
  const env = { ...process.env, ...program.env };
  const started_at = systemClock.monotonic();
  const child = spawnChild(program.command, program.args, { env });
  let said = '';
  const keep = (chunk: Buffer) => {
    said = (said + chunk.toString()).slice(-2000);
  };
  child.stdout?.on('data', keep);
  child.stderr?.on('data', keep);
  let ended = false;
  const end = new Promise<void>((resolve) => {
    child.once('close', () => {
      ended = true;
      resolve();
    });
    child.once('error', (error) => keep(Buffer.from(error.message)));
  });
  const stop = async () => {
    child.kill('SIGTERM');
    const force = systemClock.after(stop_grace_ms, () => child.kill('SIGKILL'));
    await end;
    force();
  };
  while (!(await answers(program.url))) {
    if (ended || systemClock.monotonic() - started_at > timeout_ms) {
      await stop();
      throw new Error(`${program.command} ${program.args[0]} never answered:\n${said}`);
    }
    await systemClock.sleep(poll_ms);
  }
  return { ready_ms: systemClock.monotonic() - started_at, pid: child.pid ?? 0, stop };
}

function answers(url: string): Promise<boolean> {
  return new Promise((resolve) => {
    const asked = request(url, { agent: false, timeout: 1000 }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    asked.once('timeout', () => asked.destroy());
    asked.once('error', () => resolve(false));
    asked.end();
  });
}

/** A port of loopback that nobody listens on just now. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** Resident memory of a process and all its descendants, in MB (Linux; null elsewhere). */
export function residentMb(pid: number): number | null {
  const kib = familyOf(pid).reduce((sum, one) => sum + one.kib, 0);
  return kib === 0 ? null : (kib * 1024) / 1e6;
}

/** What a process and all its descendants have had of the processors, in ms (Linux; else null). */
export function processorMs(pid: number): number | null {
  const family = familyOf(pid);
  const ticks = family.map((one) => {
    const text = readProcess(`/proc/${one.pid}/stat`) ?? '';
    // The name, in brackets, may have spaces.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return Number(fields[11] ?? 0) + Number(fields[12] ?? 0);
  });
  return family.length === 0 ? null : ticks.reduce((sum, one) => sum + one, 0) * tick_ms;
}

/** Null where it ended while we looked. */
function readProcess(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}

function familyOf(pid: number) {
  const processes = globSync('/proc/[0-9]*/status').flatMap((path) => {
    const text = readProcess(path);
    if (text === null) return [];
    const field = (name: string) =>
      Number(new RegExp(`^${name}:\\s*(\\d+)`, 'm').exec(text)?.[1] ?? 0);
    return [{ pid: field('Pid'), parent: field('PPid'), kib: field('VmRSS') }];
  });
  const family = new Set([pid]);
  for (let size = 0; size < family.size; ) {
    size = family.size;
    for (const one of processes) if (family.has(one.parent)) family.add(one.pid);
  }
  return processes.filter((one) => family.has(one.pid));
}
