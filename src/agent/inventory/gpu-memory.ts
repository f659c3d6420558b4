/**
 * Names of the GPUs that were seen on this machine, kept in a file: a GPU that is given to virtual
 * machines, or whose driver is broken, tells nobody what it is.
 *
 * Invariants: a file that is missing or damaged is an empty memory; one that cannot be written
 * costs nothing but the memory.
 */
import { mkdirSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { writeDurably } from '../../lib/files.ts';
import { describeError, type Log } from '../../lib/log.ts';
import { plainText } from '../../lib/text.ts';
import type { KnownGpu } from './gpu-snapshot.ts';
import type { GpuMemory } from './gpu-watch.ts';

const most_known = 64;

export function openGpuMemory(path: string, log: Log): GpuMemory {
  return {
    read() {
      try {
        const list: unknown = JSON.parse(readFileSync(path, 'utf8'));
        return Array.isArray(list) ? list.filter(isKnown).slice(0, most_known) : [];
      } catch {
        return [];
      }
    },
    write(known) {
      try {
        mkdirSync(dirname(path), { recursive: true });
        writeDurably(path, JSON.stringify(known));
      } catch (error) {
        log.warn({ error: describeError(error) }, 'the names of GPUs could not be kept');
      }
    },
  };
}

function isKnown(one: unknown): one is KnownGpu {
  if (typeof one !== 'object' || one === null) return false;
  const { uuid, pci, model, memory_bytes } = one as Record<string, unknown>;
  return (
    isShort(uuid, 96) &&
    (pci === null || isShort(pci, 32)) &&
    isShort(model, 128) &&
    typeof memory_bytes === 'number' &&
    memory_bytes >= 0
  );
}

function isShort(text: unknown, limit: number): boolean {
  return typeof text === 'string' && text.length <= limit && plainText(text) === text;
}
