/**
 * How busy each NVIDIA GPU of this machine is, and how much of its memory is taken: asked of
 * `nvidia-smi`, for the runs that have one.
 *
 * Invariants: the tool runs out of process with a deadline, once at a time whoever asks; who asks
 * waits no longer than a moment for it; what it does not tell is null, never zero. Of a GPU that
 * several share it is the use of all of them; of a part of one (MIG) the tool tells nothing.
 */
import type { RunStats } from '../drivers/driver.ts';
import { type Clock, withDeadline } from '../lib/clock.ts';
import { plainText } from '../lib/text.ts';
import type { MachineReader } from './inventory/machine-reader.ts';

type Use = { busy_percent: number | null; memory_bytes: number | null };
export type GpuUse = (uuids: readonly string[]) => Promise<NonNullable<RunStats['gpus']>>;

const query = [
  '--query-gpu=uuid,utilization.gpu,memory.used',
  '--format=csv,noheader,nounits',
] as const;
const tool_timeout_ms = 10_000;
const patience_ms = 2_000;
/** All runs of one round are told of one look. */
const fresh_ms = 4_000;
/** What is older says nothing of now. */
const stale_ms = 15_000;

export function createGpuUse(reader: Pick<MachineReader, 'run'>, clock: Clock): GpuUse {
  let last: { at: number; uses: ReadonlyMap<string, Use> } | null = null;
  let asking: Promise<void> | null = null;

  async function ask(): Promise<void> {
    const result = await reader.run('nvidia-smi', [...query], tool_timeout_ms);
    const is_told = result.outcome === 'exited';
    last = { at: clock.monotonic(), uses: is_told ? parseUse(result.stdout) : new Map() };
  }

  const ageOf = () => (last === null ? Number.POSITIVE_INFINITY : clock.monotonic() - last.at);

  return async (uuids) => {
    if (ageOf() > fresh_ms) {
      asking ??= ask()
        .catch(() => {})
        .finally(() => {
          asking = null;
        });
      await withDeadline(clock, patience_ms, 'it does not answer', asking).catch(() => {});
    }
    const uses = ageOf() > stale_ms ? undefined : last?.uses;
    return uuids.map((uuid) => ({ uuid, ...(uses?.get(uuid) ?? not_told) }));
  };
}

const not_told: Use = { busy_percent: null, memory_bytes: null };

/** `GPU-…, 37, 1234` a line; memory in MiB. `[N/A]` and errors are null. */
export function parseUse(csv: string): Map<string, Use> {
  const uses = new Map<string, Use>();
  for (const line of plainText(csv).split('\n').slice(0, 64)) {
    const [uuid = '', busy = '', memory = '', ...rest] = line.split(',').map((cell) => cell.trim());
    if (!/^GPU-[\w-]{1,80}$/.test(uuid) || rest.length > 0) continue;
    const percent = figure(busy);
    const mebibytes = figure(memory);
    uses.set(uuid, {
      busy_percent: percent === null ? null : Math.min(100, percent),
      memory_bytes: mebibytes === null ? null : Math.round(mebibytes * 2 ** 20),
    });
  }
  return uses;
}

function figure(cell: string): number | null {
  return /^\d{1,9}(\.\d+)?$/.test(cell) ? Number(cell) : null;
}
