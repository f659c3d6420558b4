/**
 * Made-up machines of dev mode: read from a file, added to the store, each with an id that it keeps
 * over restarts in a folder of its own below the data folder (ADR-0057).
 *
 * Invariants: without dev mode nothing of this is called; a file with one wrong word adds nothing.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { EinsoraError } from '../contract/errors.ts';
import { type SimMachine, simMachinesSchema } from '../contract/sim-machines.ts';
import { makeId } from '../core/ids.ts';
import { isReasonCode } from '../core/reasons.ts';
import type { Clock } from '../lib/clock.ts';
import { makePrivateFolder, readIfThere, writeDurably } from '../lib/files.ts';
import type { Random } from '../lib/random.ts';
import type { EinsoraStore } from '../store/transactions.ts';

export type PlacedSim = { machine: SimMachine; machine_id: string; folder: string };

type Deps = {
  store: Pick<EinsoraStore, 'transact'>;
  clock: Clock;
  random: Random;
  data_dir: string;
  /** Who owns a machine that names no owner. */
  owner: string;
};

/** Throws `sim_machines_wrong` with what is wrong, and where. */
export function readSimMachines(path: string): SimMachine[] {
  const refuse = (why: string) => new EinsoraError('sim_machines_wrong', { path, why });
  let told: unknown;
  try {
    told = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw refuse(error instanceof Error ? error.message : String(error));
  }
  const parsed = simMachinesSchema.safeParse(told);
  if (!parsed.success) {
    const [first] = parsed.error.issues;
    throw refuse(`${first?.path.join('.') ?? ''}: ${first?.message ?? 'it cannot be read'}`);
  }
  const { machines } = parsed.data;
  for (const { name, plans, plan } of machines) {
    const unknown = [...plans, plan].map((one) => one.start_error).find(isUnknown);
    if (unknown !== undefined) throw refuse(`${name}: ${unknown} is no code of a reason`);
  }
  return machines;
}

function isUnknown(code: string | undefined): boolean {
  return code !== undefined && !isReasonCode(code);
}

/** Adds those that are not known yet. */
export async function addSimMachines(
  deps: Deps,
  machines: readonly SimMachine[],
): Promise<PlacedSim[]> {
  const { store, clock, random, data_dir } = deps;
  const newId = () => makeId(clock.now(), random.bytes(10));
  const tenant = (slug: string) => ({ slug, new_id: newId() });
  const placed: PlacedSim[] = [];
  for (const machine of machines) {
    const folder = join(data_dir, 'sim-machines', machine.name);
    makePrivateFolder(folder);
    const path = join(folder, 'machine-id');
    const known = readIfThere(path)?.trim();
    const machine_id = known || newId();
    if (!known) writeDurably(path, machine_id);
    const { name, region, sharing, guests } = machine;
    await store.transact('addSimMachine', {
      ...{ id: machine_id, name, region, sharing, now: clock.now() },
      owner: tenant(machine.owner ?? deps.owner),
      guests: guests.map(tenant),
    });
    placed.push({ machine, machine_id, folder });
  }
  return placed;
}
