/**
 * How long one pass of admission works: 10,000 that wait, on 1,000 machines that are as full as
 * they get.
 *
 * Invariants: only what a pass works between its rests is counted; the first pass (machines never
 * seen, places to give) is shown beside the ones that find nothing new.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Controller, PassFacts } from '../src/controlplane/controller.ts';
import { addMachines, type Filled, launchMany, openController, openFilled } from './admit-fill.ts';

const tenants = 20;

export type PassFigures = {
  first_pass_ms: number;
  passes_ms: number[];
  /** Of the main thread, for each pass: what it costs where others take turns on the processor. */
  cpu_ms: number;
  longest_slice_ms: number;
  waiting: number;
  placed: number;
};

export async function benchPasses(
  parent: string,
  size: { waiting: number; machines: number; passes: number },
): Promise<PassFigures> {
  const folder = mkdtempSync(join(parent, 'pass-'));
  const filled = await openFilled(folder, tenants);
  try {
    await addMachines(filled, size.machines);
    await launchMany(filled, size.waiting);
    const controller = await openController(filled);
    const first = await controller.pass();
    const placed = first.placed + (await fillUp(filled, controller, size.waiting));
    const passes: PassFacts[] = [];
    const cpu = process.threadCpuUsage();
    for (let count = 0; count < size.passes; count += 1) passes.push(await controller.pass());
    const { user, system } = process.threadCpuUsage(cpu);
    return {
      first_pass_ms: first.busy_ms,
      passes_ms: passes.map((one) => one.busy_ms),
      cpu_ms: (user + system) / 1000 / size.passes,
      longest_slice_ms: Math.max(...passes.map((one) => one.longest_slice_ms)),
      waiting: passes.at(-1)?.waiting ?? 0,
      placed,
    };
  } finally {
    await filled.store.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Launches and places until nothing finds a place and so many wait. */
async function fillUp(filled: Filled, controller: Controller, waiting: number): Promise<number> {
  let placed = 0;
  for (;;) {
    const facts = await controller.pass();
    placed += facts.placed;
    const left = facts.waiting - facts.placed;
    if (left < waiting) await launchMany(filled, waiting - left);
    else if (facts.placed + facts.queued === 0) return placed;
  }
}
