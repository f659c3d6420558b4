/**
 * Who uses CPU and memory of a Linux machine, from /proc.
 *
 * Invariants: pure; CPU of others is what the machine used less what our runs did, over the same
 * time, never below nothing.
 */
export type CpuTicks = { busy: number; all: number };

/** The first line of /proc/stat. Time of guests of a hypervisor is in `user` already. */
export function parseStat(text: string): CpuTicks | null {
  const fields = /^cpu +(.+)$/m.exec(text)?.[1]?.trim().split(/\s+/).map(Number).slice(0, 8);
  if (fields === undefined || fields.length < 4 || fields.some(Number.isNaN)) return null;
  const [, , , idle = 0, waiting = 0] = fields;
  const all = fields.reduce((sum, one) => sum + one, 0);
  return { busy: all - idle - waiting, all };
}

/** Thousandths of a core that others used since `before`; null where no time went by. */
export function othersMillis(
  before: CpuTicks,
  after: CpuTicks,
  cores_millis: number,
  ours_millis: number,
): number | null {
  const all = after.all - before.all;
  if (all <= 0) return null;
  const share = Math.min(1, Math.max(0, (after.busy - before.busy) / all));
  return Math.max(0, Math.round(share * cores_millis - ours_millis));
}

export function parseMemory(text: string): { available: number; total: number } | null {
  const kib = (name: string) =>
    Number(new RegExp(`^${name}: +(\\d+) kB$`, 'm').exec(text)?.[1] ?? Number.NaN);
  const [available, total] = [kib('MemAvailable'), kib('MemTotal')];
  if (Number.isNaN(available) || Number.isNaN(total)) return null;
  return { available: available * 1024, total: total * 1024 };
}

/** "full avg10=1.23 …" of /proc/pressure/memory; null on kernels without it. */
export function parseStall(text: string | null): number | null {
  const value = /^full avg10=(\d+(?:\.\d+)?) /m.exec(text ?? '')?.[1];
  return value === undefined ? null : Number(value);
}
