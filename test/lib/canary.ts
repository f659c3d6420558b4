/**
 * Secrets that are unique, and the search for them in files, processes and texts.
 *
 * Invariants: a secret is looked for as it is and in the spellings that programs give it (base64,
 * hex, percent, JSON), so that no encoding hides it; what is found is told by name and place, never
 * by its text.
 */
import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';

export type Find = { secret: string; where: string };

export type Canaries = {
  /** A secret that may stand in the named files, by their path below the folder, and nowhere else. */
  add(name: string, value: string, allowed?: readonly string[]): void;
  names(): string[];
  inText(where: string, text: string | Buffer): Find[];
  inFiles(folder: string): Find[];
  /** In the arguments, the environment, the title and the working folder of these processes. */
  inProcesses(pids: readonly number[]): Find[];
};

type Canary = { name: string; forms: readonly Buffer[]; allowed: readonly string[] };

const least_chars = 12;

export function createCanaries(): Canaries {
  const canaries: Canary[] = [];
  const search = (where: string, bytes: Buffer, path = ''): Find[] =>
    canaries
      .filter(({ allowed }) => !allowed.includes(path))
      .filter(({ forms }) => forms.some((form) => bytes.includes(form)))
      .map(({ name }) => ({ secret: name, where }));
  return {
    add(name, value, allowed = []) {
      if (value.length < least_chars) throw new Error(`${name} is too short to be unique`);
      canaries.push({ name, forms: formsOf(value), allowed });
    },
    names: () => canaries.map(({ name }) => name),
    inText: (where, text) => search(where, Buffer.from(text)),
    inFiles: (folder) =>
      filesOf(folder).flatMap((path) => {
        const name = relative(folder, path);
        return search(`file ${name}`, Buffer.concat([Buffer.from(`${name}\n`), read(path)]), name);
      }),
    inProcesses: (pids) =>
      pids.flatMap((pid) =>
        ['cmdline', 'environ', 'comm', 'cwd'].flatMap((part) => {
          const command = read(`/proc/${pid}/cmdline`)
            .toString()
            .replaceAll('\0', ' ')
            .slice(0, 40);
          const text = part === 'cwd' ? link(`/proc/${pid}/cwd`) : read(`/proc/${pid}/${part}`);
          return search(`${part} of ${pid} (${command})`, Buffer.from(text));
        }),
      ),
  };
}

/** Every process that a program started, whoever is its parent now: below it, or of its folder. */
export function processesOf(program_pid: number, data_dir: string): number[] {
  const all = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
  const parents = new Map(all.map((pid) => [pid, parentOf(pid)]));
  const isRoot = (pid: number) =>
    pid === program_pid || read(`/proc/${pid}/cmdline`).includes(data_dir);
  const roots = new Set(all.filter(isRoot));
  const isBelow = (pid: number): boolean => {
    const parent = parents.get(pid);
    return parent !== undefined && parent > 1 && (roots.has(parent) || isBelow(parent));
  };
  return all.filter((pid) => pid !== program_pid && (roots.has(pid) || isBelow(pid)));
}

export function commandLineOf(pid: number): string {
  return read(`/proc/${pid}/cmdline`).toString();
}

/** The secret, and its body alone where a prefix says what it is for. */
function formsOf(value: string): Buffer[] {
  const body = /^(?:tsk|ept|eat|ejt|hf)_(.{12,})$/.exec(value)?.[1];
  const texts = [value, ...(body === undefined ? [] : [body, body.slice(0, 20)])];
  return texts.flatMap((text) => {
    const bytes = Buffer.from(text);
    const spelled = [
      ...[text, bytes.toString('hex'), bytes.toString('hex').toUpperCase()],
      ...[encodeURIComponent(text), JSON.stringify(text).slice(1, -1)],
      ...base64Cores(bytes),
    ];
    return [...new Set(spelled)].map((one) => Buffer.from(one));
  });
}

/** What of its base64 is the same whatever stands around it, for each of the three alignments. */
function base64Cores(bytes: Buffer): string[] {
  return [0, 1, 2].flatMap((shift) => {
    const text = Buffer.concat([Buffer.alloc(shift), bytes])
      .toString('base64')
      .replace(/=+$/, '');
    const core = text.slice(shift === 0 ? 0 : shift + 1, -2);
    return [core, core.replaceAll('+', '-').replaceAll('/', '_')];
  });
}

function filesOf(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return filesOf(path);
    return entry.isFile() ? [path] : [];
  });
}

/** The content, or nothing where it went away or may not be read. */
function read(path: string): Buffer {
  try {
    return statSync(path).isFile() ? readFileSync(path) : Buffer.alloc(0);
  } catch {
    return Buffer.alloc(0);
  }
}

function link(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}

function parentOf(pid: number): number {
  const text = read(`/proc/${pid}/stat`).toString();
  return Number(text.slice(text.lastIndexOf(')') + 2).split(' ')[1] ?? 0);
}
