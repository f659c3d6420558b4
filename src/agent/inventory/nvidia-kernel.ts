/**
 * What NVIDIA's kernel module tells in /proc: its version, and the cards that it holds. It is there
 * when nvidia-smi is not, and cannot hang.
 */
import { plainText } from '../../lib/text.ts';
import type { MachineReader } from './machine-reader.ts';

export type KernelModule = {
  /** Null where the module says nothing that we can read. */
  version: string | null;
  /** By address on the bus; a name that it does not know (yet) is null. */
  cards: Record<string, { model: string | null; uuid: string | null }>;
};

const folder = '/proc/driver/nvidia';

/** Null where no such module is loaded. */
export function readModule(reader: Pick<MachineReader, 'read' | 'list'>): KernelModule | null {
  const text = reader.read(`${folder}/version`);
  if (text === null) return null;
  const cards: KernelModule['cards'] = {};
  for (const address of reader.list(`${folder}/gpus`).slice(0, 64)) {
    const told = plainText(reader.read(`${folder}/gpus/${address}/information`) ?? '');
    const model = /^Model:[ \t]*(\S.{0,99})$/m.exec(told)?.[1]?.trim() ?? null;
    // Before its first use the uuid stands there as question marks.
    const uuid = /^GPU UUID:\s*(GPU-[\w-]{1,80})\s*$/m.exec(told)?.[1] ?? null;
    cards[address.toLowerCase()] = { model: model === 'Unknown' ? null : model, uuid };
  }
  const version = /Kernel Module(?: for \S+)?\s+(\d+\.\d+(?:\.\d+)?)/.exec(text)?.[1] ?? null;
  return { version, cards };
}
