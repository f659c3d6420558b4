/**
 * What a machine's new inventory says of its GPUs that the one before did not: for its owner's
 * activity log.
 *
 * Invariants: the row is written with the inventory, in one transaction; an inventory that says
 * nothing new of GPUs adds none; names from a machine are plain text and short.
 */
import { type Inventory, inventorySchema } from '../../contract/machines.ts';
import { gpuChanges } from '../../core/gpus.ts';
import { makeId } from '../../core/ids.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Random } from '../../lib/random.ts';
import { plainText } from '../../lib/text.ts';
import type { MachineNews } from '../../store/machines.ts';

type Before = { tenant_id: string; name: string; inventory: string | null };

const details_chars = 1000;

/** Undefined where there is nothing to record. */
export function gpuNews(
  { clock, random }: { clock: Clock; random?: Random },
  machine: Before | undefined,
  inventory: Inventory,
): MachineNews | undefined {
  if (random === undefined || machine === undefined) return undefined;
  const before = gpusOf(machine.inventory);
  const changes = gpuChanges(before, inventory.gpus);
  if (changes.length === 0) return undefined;
  const now = clock.now();
  const id = makeId(now, random.bytes(10));
  return {
    action: {
      ...{ id, tenant_id: machine.tenant_id, user_id: null, actor: `machine:${machine.name}` },
      ...{ via: 'system', proof_id: null, request_id: id, route: 'machineChanged', now },
    },
    details: { gpus: plainText(changes.join('; ')).slice(0, details_chars) },
  };
}

function gpusOf(text: string | null): Inventory['gpus'] {
  if (text === null) return [];
  const parsed = inventorySchema.safeParse(JSON.parse(text));
  return parsed.success ? parsed.data.gpus : [];
}
