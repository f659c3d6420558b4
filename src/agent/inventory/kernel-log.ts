/**
 * What the kernel's log says of NVIDIA GPUs: Xids, and cards that fell off the bus without one.
 *
 * Invariants: only the end of this boot's log is read, with a deadline and a cap; what was read
 * before is remembered, so a line that scrolls away is not forgotten; a driver that is loaded anew
 * starts with a clean slate; a log that cannot be read says so and is no proof of health.
 */
import { plainText } from '../../lib/text.ts';
import type { MachineReader } from './machine-reader.ts';
import { pciAddress } from './nvidia-smi.ts';

/** Of one GPU, since its driver was loaded. */
export type GpuTroubles = {
  /** How often each Xid came. */
  xids: Record<number, number>;
  fell_off: boolean;
  /** What the last Xid 154 said that the GPU needs: "GPU Reset Required", "None", … */
  recovery: string | null;
};

export type KernelLog = {
  /** Why it could not be read; null where it was. */
  unread: string | null;
  /** By address on the bus. */
  gpus: Record<string, GpuTroubles>;
};

const timeout_ms = 5_000;
const most_lines = 1_500;
const most_gpus = 64;
const most_xids = 32;

export function createKernelLog() {
  let known: KernelLog['gpus'] = {};
  /** The last line that was counted: what comes up to it was counted before. */
  let last: string | null = null;
  let source = '';

  return async function look(reader: MachineReader): Promise<KernelLog> {
    const read = await readLog(reader);
    if (read === null) {
      return { unread: 'neither journalctl nor dmesg may be read by this user', gpus: known };
    }
    // Another source has other forms of the same lines: they would be counted twice.
    if (read.source !== source) {
      known = {};
      last = null;
      source = read.source;
    }
    const lines = plainText(read.text)
      .split('\n')
      .filter((line) => /NVRM|nvidia/i.test(line));
    const fresh = last === null ? lines : lines.slice(lines.lastIndexOf(last) + 1);
    last = lines.at(-1) ?? last;
    known = readLines(fresh, known);
    return { unread: null, gpus: known };
  };
}

/** With times, so that no two lines are the same. */
async function readLog(reader: MachineReader): Promise<{ source: string; text: string } | null> {
  const args = ['-k', '-b', '-o', 'short-monotonic', '--no-pager', '-q', '-n', String(most_lines)];
  const journal = await reader.run('journalctl', args, timeout_ms);
  if (journal.outcome === 'exited' && journal.code === 0 && journal.stdout.trim() !== '') {
    return { source: 'journalctl', text: journal.stdout };
  }
  const levels = '--level=emerg,alert,crit,err,warn,notice';
  const ring = await reader.run('dmesg', [levels], timeout_ms);
  return ring.outcome === 'exited' && ring.code === 0
    ? { source: 'dmesg', text: ring.stdout }
    : null;
}

export function readLines(lines: string[], before: KernelLog['gpus']): KernelLog['gpus'] {
  let gpus = structuredClone(before);
  // "The NVIDIA GPU … has fallen off the bus" comes as three lines.
  let mentioned: string | null = null;
  for (const line of lines) {
    if (/NVRM: loading NVIDIA/.test(line)) gpus = {};
    mentioned = addressIn(line) ?? mentioned;
    const xid = /NVRM: Xid \(PCI:([0-9a-f:.]{5,20})\): (\d{1,4})\b(.*)/i.exec(line);
    const off = /fallen off the bus/i.test(line);
    const address = xid === null ? (off ? mentioned : null) : pciAddress(xid[1] ?? '');
    if (address === null) continue;
    const gpu = gpus[address] ?? { xids: {}, fell_off: false, recovery: null };
    if (gpus[address] === undefined && Object.keys(gpus).length >= most_gpus) continue;
    gpus[address] = gpu;
    if (off) gpu.fell_off = true;
    if (xid === null) continue;
    const number = Number(xid[2]);
    if (gpu.xids[number] === undefined && Object.keys(gpu.xids).length >= most_xids) continue;
    gpu.xids[number] = (gpu.xids[number] ?? 0) + 1;
    const needs = /\bto 0x[0-9a-f]+ \(([\w ]{1,40})\)/i.exec(xid[3] ?? '')?.[1];
    if (number === 154 && needs !== undefined) gpu.recovery = needs;
  }
  return gpus;
}

function addressIn(line: string): string | null {
  if (!line.includes('NVRM')) return null;
  const found = /\b((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?)\b/i.exec(
    line.slice(line.indexOf('NVRM')),
  );
  return pciAddress(found?.[1] ?? '');
}
