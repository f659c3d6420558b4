/**
 * What `nvidia-smi` says, asked so that one broken GPU or one unknown field does not hide the rest.
 *
 * Invariants: an unknown field would fail the whole query, so what the tool offers is asked first;
 * an answer that cannot be understood is a trouble with its text, never "no GPU"; what reads
 * [N/A], [Unknown Error] or ERR! is a value; a query that fails as a whole is asked again for each
 * GPU that the bus shows.
 */
import type { ExecResult } from '../../lib/exec.ts';
import { plainText } from '../../lib/text.ts';
import type { MachineReader } from './machine-reader.ts';

export type NvidiaRow = {
  uuid: string;
  pci: string | null;
  name: string;
  driver_version: string | null;
  /** Null where the GPU has no memory of its own to tell of, or did not tell. */
  memory_bytes: number | null;
  /** The driver says that there is no such figure: the memory is the machine's. */
  is_unified: boolean;
  display: string | null;
  mig: 'enabled' | 'disabled' | null;
  persistence: 'enabled' | 'disabled' | null;
  pending_retirement: boolean;
  pending_remap: boolean;
  failed_remap: boolean;
  /** What the driver wants done with it; null where it does not tell. */
  recovery: string | null;
  /** Fields that answered with an error, with what they said. */
  errors: string[];
};

export type NvidiaTrouble =
  | { kind: 'not_installed' | 'timeout' | 'no_driver' | 'no_permission' | 'lost' | 'no_devices' }
  | { kind: 'power' }
  | { kind: 'mismatch'; nvml_version: string | null }
  | { kind: 'failed'; text: string };

export type NvidiaAnswer = {
  rows: NvidiaRow[];
  /** Why there is no row of the others; null where all answered. */
  trouble: NvidiaTrouble | null;
  /** Why a GPU that was asked alone did not answer, by its address. */
  alone: Record<string, NvidiaTrouble>;
  /** Addresses of which the tool warns that their infoROM is damaged. */
  inforom: string[];
};

export const nvidia_timeout_ms = 10_000;
const most_alone = 16;

/** Every driver knows these. */
const always = ['uuid', 'pci.bus_id', 'name', 'driver_version', 'memory.total'];
const wanted = [
  ...always,
  ...['display_active', 'display_attached', 'mig.mode.current', 'persistence_mode'],
  ...['retired_pages.pending', 'remapped_rows.pending', 'remapped_rows.failure'],
  'gpu_recovery_action',
];

/** The fields that this tool knows, of those that are wanted; null where it does not answer. */
export async function askFields(reader: MachineReader): Promise<string[] | null> {
  const help = await reader.run('nvidia-smi', ['--help-query-gpu'], nvidia_timeout_ms);
  if (help.outcome === 'timeout') return null;
  const known = new Set(
    [...help.stdout.matchAll(/"([\w.]{1,80})"/g)].map((match) => match[1] ?? ''),
  );
  const fields = wanted.filter((field) => known.has(field));
  return always.every((field) => fields.includes(field)) ? fields : always;
}

export async function askNvidia(
  reader: MachineReader,
  fields: string[] | null,
  addresses: string[],
): Promise<NvidiaAnswer> {
  if (fields === null) {
    return { rows: [], trouble: { kind: 'timeout' }, alone: {}, inforom: [] };
  }
  const result = await query(reader, fields, null);
  if (fields.length > always.length && /not a valid field/i.test(words(result))) {
    return askNvidia(reader, always, addresses);
  }
  const rows = result.outcome === 'exited' ? parseRows(result.stdout, fields) : [];
  const inforom = inforomWarnings(words(result));
  const trouble = troubleOf(result, rows);
  const alone: NvidiaAnswer['alone'] = {};
  if (trouble !== null && isOfOne(trouble)) {
    const silent = addresses.filter((address) => !rows.some((row) => row.pci === address));
    for (const { address, answer } of await askAlone(reader, fields, silent)) {
      if ('row' in answer) rows.push(answer.row);
      else alone[address] = answer;
    }
  }
  return { rows, trouble, alone, inforom };
}

/** What may be one GPU's fault and not that of the driver or the tool. */
function isOfOne({ kind }: NvidiaTrouble): boolean {
  return kind === 'lost' || kind === 'power' || kind === 'failed';
}

function askAlone(reader: MachineReader, fields: string[], addresses: string[]) {
  return Promise.all(
    addresses.slice(0, most_alone).map(async (address) => {
      const result = await query(reader, fields, address);
      const rows = result.outcome === 'exited' ? parseRows(result.stdout, fields) : [];
      const row = rows.find((one) => one.pci === address);
      if (row !== undefined) return { address, answer: { row } };
      const nothing: NvidiaTrouble = { kind: 'failed', text: 'no answer' };
      return { address, answer: troubleOf(result, []) ?? nothing };
    }),
  );
}

function query(reader: MachineReader, fields: string[], address: string | null) {
  const of = address === null ? [] : ['-i', address];
  const args = [...of, `--query-gpu=${fields.join(',')}`, '--format=csv,noheader,nounits'];
  return reader.run('nvidia-smi', args, nvidia_timeout_ms);
}

/** Which stream carries a complaint differs between versions. */
function words(result: ExecResult): string {
  return plainText(`${result.stdout}\n${result.stderr}`).trim();
}

/** Null where the answer is whole. */
export function troubleOf(result: ExecResult, rows: NvidiaRow[]): NvidiaTrouble | null {
  if (result.outcome === 'failed') return { kind: 'not_installed' };
  if (result.outcome !== 'exited') return { kind: 'timeout' };
  const text = words(result);
  if (/version mismatch/i.test(text)) {
    const nvml_version = /library version: ([\d.]+)/i.exec(text)?.[1] ?? null;
    return { kind: 'mismatch', nvml_version };
  }
  if (result.code === 8 || /power cables/i.test(text)) return { kind: 'power' };
  const is_lost = /unable to determine the device handle|gpu is lost|fallen off the bus/i;
  if (result.code === 15 || is_lost.test(text)) return { kind: 'lost' };
  if (result.code === 9 || /couldn't communicate with the NVIDIA driver/i.test(text)) {
    return { kind: 'no_driver' };
  }
  if (result.code === 12 || /NVML (shared )?library/i.test(text)) return { kind: 'not_installed' };
  if (result.code === 4 || /insufficient permissions/i.test(text)) return { kind: 'no_permission' };
  if (rows.length > 0) return null; // also with exit code 14, a warning about the infoROM
  if (/no devices were found/i.test(text)) return { kind: 'no_devices' };
  const end = result.signal === null ? `exit code ${result.code}` : `ended by ${result.signal}`;
  return { kind: 'failed', text: firstLine(text) || end };
}

export function parseRows(csv: string, fields: string[]): NvidiaRow[] {
  return plainText(csv)
    .split('\n')
    .flatMap((line): NvidiaRow[] => {
      const cells = line.split(',').map((cell) => cell.trim());
      if (cells.length !== fields.length) return [];
      const row = readRow(new Map(fields.map((field, index) => [field, cells[index] ?? ''])));
      return row === null ? [] : [row];
    })
    .slice(0, 64);
}

function readRow(cells: Map<string, string>): NvidiaRow | null {
  const uuid = cells.get('uuid') ?? '';
  if (!/^GPU-[\w-]{1,80}$/.test(uuid)) return null;
  const value = (field: string) => known(cells.get(field));
  const memory = cells.get('memory.total') ?? '';
  const mebibytes = /^\d+(\.\d+)?$/.test(memory) ? Number(memory) : null;
  const driver_version = value('driver_version')?.slice(0, 64) ?? null;
  return {
    uuid,
    pci: pciAddress(cells.get('pci.bus_id') ?? ''),
    name: (value('name') ?? 'NVIDIA GPU').slice(0, 100),
    driver_version,
    memory_bytes: mebibytes === null || mebibytes === 0 ? null : Math.round(mebibytes * 2 ** 20),
    is_unified: isAbsent(memory),
    display: displayOf(value('display_active'), value('display_attached')),
    mig: switchOf(value('mig.mode.current')),
    persistence: switchOf(value('persistence_mode')),
    pending_retirement: isYes(value('retired_pages.pending')),
    pending_remap: isYes(value('remapped_rows.pending')),
    failed_remap: isYes(value('remapped_rows.failure')),
    recovery: value('gpu_recovery_action')?.slice(0, 40) ?? null,
    errors: [...cells]
      .filter(([, cell]) => isError(cell))
      .map(([field, cell]) => `${field} ${cell}`),
  };
}

/** "00000000:3B:00.0" and "0000:3b:00" alike give "0000:3b:00.0"; null where it is no address. */
export function pciAddress(text: string): string | null {
  const [, domain, bus, slot, fn = '0'] =
    /^(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?$/i.exec(text.trim()) ?? [];
  if (bus === undefined || slot === undefined) return null;
  return `${(domain ?? '0').padStart(4, '0').slice(-4)}:${bus}:${slot}.${fn}`.toLowerCase();
}

function isAbsent(cell: string): boolean {
  return /^\[?(N\/A|Not Supported|Not Found)\]?$/i.test(cell);
}

function isError(cell: string): boolean {
  return /unknown error|ERR!|requires reset|gpu is lost/i.test(cell);
}

function known(cell: string | undefined): string | null {
  if (cell === undefined || cell === '' || isAbsent(cell) || isError(cell)) return null;
  return /^\[.*\]$/.test(cell) ? null : cell;
}

function isYes(value: string | null): boolean {
  return value !== null && /^(yes|1|pending|enabled)$/i.test(value);
}

function switchOf(value: string | null): 'enabled' | 'disabled' | null {
  if (value === null) return null;
  return /^enabled$/i.test(value) ? 'enabled' : /^disabled$/i.test(value) ? 'disabled' : null;
}

/** With the screen asleep it is not active any more, and still attached. */
function displayOf(active: string | null, attached: string | null): string | null {
  if (isYes(active)) return 'active';
  return isYes(attached) ? 'attached' : null;
}

function inforomWarnings(text: string): string[] {
  const found = text.matchAll(/infoROM is corrupted at gpu ([0-9a-f:.]+)/gi);
  return [...found].flatMap((match) => pciAddress(match[1] ?? '') ?? []).slice(0, 64);
}

function firstLine(text: string): string {
  return (text.split('\n')[0] ?? '').slice(0, 200);
}
