/**
 * How much later a container's program runs when our driver starts it than when `docker run` does.
 *
 * Measured from the call to the moment at which the program has written a file that both can see.
 * `docker run` is the field's own way: the command line of the same engine, with the same caps. The
 * two take turns.
 */
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../src/lib/clock.ts';
import { newRun } from '../test/contracts/driver.ts';
import { type DockerHarness, dockerHarness } from '../test/lib/docker-harness.ts';
import { needs } from '../test/lib/parts.ts';

const target_ms = 150;
const rounds = 21;
const quick_rounds = 3;
const never = new AbortController().signal;

export async function bench({ quick }: { quick: boolean }): Promise<Record<string, unknown>> {
  const { skip } = needs('docker');
  if (skip !== false) {
    console.log(`nothing is measured: ${skip}`);
    return { added_p50_ms: null, docker_run_p50_ms: null, start_p50_ms: null };
  }
  await using harness = await dockerHarness();
  const marks = mkdtempSync(join(tmpdir(), 'einsora-bench-'));
  const theirs: number[] = [];
  const ours: number[] = [];
  try {
    for (let round = 0; round < (quick ? quick_rounds : rounds); round += 1) {
      // The first of each warms files up, and does not count.
      const theirs_ms = await dockerRun(harness, join(marks, `t${round}`));
      const ours_ms = await driverStart(harness, join(marks, `o${round}`));
      if (round === 0) continue;
      theirs.push(theirs_ms);
      ours.push(ours_ms);
    }
  } finally {
    rmSync(marks, { recursive: true });
  }
  const docker_run_p50_ms = median(theirs);
  const start_p50_ms = median(ours);
  const added_p50_ms = round1(start_p50_ms - docker_run_p50_ms);
  printTable([
    ['', 'p50', 'fastest', 'slowest'],
    ['docker run', ...figures(theirs)],
    ['einsora', ...figures(ours)],
  ]);
  console.log(`added: ${added_p50_ms} ms, at most ${target_ms} ms wanted`);
  if (!quick && added_p50_ms > target_ms) process.exitCode = 1;
  return { added_p50_ms, docker_run_p50_ms, start_p50_ms, rounds: ours.length };
}

async function dockerRun({ docker, image }: DockerHarness, mark: string): Promise<number> {
  mkdirSync(mark);
  const caps = ['--memory', '256m', '--memory-swap', '256m', '--cpus', '1', '--network', 'none'];
  const hardening = ['--init', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges'];
  const args = ['run', '-d', ...caps, ...hardening, '-v', `${mark}:/mark`, image];
  const began = systemClock.monotonic();
  const id = await docker(...args, 'sh', '-c', script);
  const took_ms = await untilMarked(mark, began);
  await docker('rm', '-f', id);
  return took_ms;
}

async function driverStart(harness: DockerHarness, mark: string): Promise<number> {
  mkdirSync(mark);
  const run = newRun();
  const mounts = [{ source: mark, target: '/mark', writable: true }];
  const spec = harness.shell(script, { run, mounts, memory_bytes: 256 * 2 ** 20 });
  const began = systemClock.monotonic();
  await harness.driver.start(spec, never);
  const took_ms = await untilMarked(mark, began);
  await harness.driver.stop(run, 'remove', 0);
  return took_ms;
}

const script = ': > /mark/up; sleep 1000';

async function untilMarked(folder: string, began: number): Promise<number> {
  while (!existsSync(join(folder, 'up'))) {
    if (systemClock.monotonic() - began > 60_000) throw new Error('the program never ran');
    await systemClock.sleep(1);
  }
  return systemClock.monotonic() - began;
}

function median(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return round1(sorted[Math.floor(sorted.length / 2)] ?? Number.NaN);
}

function figures(values: number[]): string[] {
  return [median(values), Math.min(...values), Math.max(...values)].map((ms) => `${round1(ms)} ms`);
}

function round1(value: number): number {
  return Math.round(value * 10) / 10;
}

function printTable(rows: string[][]): void {
  for (const row of rows) console.log(row.map((cell) => cell.padStart(12)).join(''));
}
