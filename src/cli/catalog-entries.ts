/**
 * `einsora classes` and `einsora images`: what there is to ask for, and what an operator makes of
 * it.
 *
 * Invariants: what is set comes whole from a file, in the form that `show --json` prints, so that
 * an entry can be taken over, changed and put back.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { CatalogImage, GpuClass } from '../contract/catalog-entries.ts';
import { formatAgo, formatMemory } from '../core/format.ts';
import { usageError } from './cli-error.ts';
import { openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { pairLines, printData, printJson, printTable, say } from './output.ts';

type JsonOption = { json?: boolean };
export type EntrySort = 'class' | 'image';
type Entry = GpuClass | CatalogImage;

const paths = { class: '/v1/classes', image: '/v1/catalog-images' } as const;
const groups = { class: 'classes', image: 'images' } as const;
const pathOf = (sort: EntrySort, name: string) => `${paths[sort]}/${encodeURIComponent(name)}`;
/** What an answer has beside the entry itself. */
const told = ['name', 'origin', 'changed_at', 'changed_by'];

export async function listEntries(
  context: Context,
  sort: EntrySort,
  options: JsonOption,
): Promise<number> {
  const { items } = await openClient(context).call<{ items: Entry[] }>('GET', paths[sort]);
  if (options.json) printJson(context, { items });
  else if (sort === 'class') printClasses(context, items as GpuClass[]);
  else printImages(context, items as CatalogImage[]);
  return exitCode('ok');
}

export async function showEntry(
  context: Context,
  sort: EntrySort,
  name: string,
  options: JsonOption,
): Promise<number> {
  const entry = await openClient(context).call<Entry>('GET', pathOf(sort, name));
  printEntry(context, sort, entry, options);
  return exitCode('ok');
}

export async function setEntry(
  context: Context,
  sort: EntrySort,
  name: string,
  file: string,
  options: JsonOption,
): Promise<number> {
  const text = await readText(context, sort, file);
  const body = entryOf(sort, file, text);
  const entry = await openClient(context).call<Entry>('PUT', pathOf(sort, name), { body });
  if (options.json) printJson(context, entry);
  else say(context, `${name} is ${entry.origin === 'added' ? 'added' : 'as the file says'}.`);
  return exitCode('ok');
}

export async function removeEntry(
  context: Context,
  sort: EntrySort,
  name: string,
  options: JsonOption,
): Promise<number> {
  const entry = await openClient(context).call<Entry>('DELETE', pathOf(sort, name));
  if (options.json) printJson(context, entry);
  else say(context, `${name} can not be asked for any more. What runs by it goes on.`);
  return exitCode('ok');
}

export async function resetEntry(
  context: Context,
  sort: EntrySort,
  name: string,
  options: JsonOption,
): Promise<number> {
  const entry = await openClient(context).call<Entry>('POST', `${pathOf(sort, name)}/reset`);
  if (options.json) printJson(context, entry);
  else say(context, `${name} is as it comes with Einsora.`);
  return exitCode('ok');
}

const exampleOf = (sort: EntrySort) => `bin/einsora ${groups[sort]} show <name> --json`;
const most_chars = 256 * 1024;

async function readText({ io }: Context, sort: EntrySort, file: string): Promise<string> {
  if (file === '-') {
    let text = '';
    for await (const chunk of io.stdin) {
      text += String(chunk);
      if (text.length > most_chars) throw usageError('that is too much for one entry');
    }
    return text;
  }
  try {
    return readFileSync(resolve(io.cwd, file), 'utf8');
  } catch (error) {
    throw usageError(`${file} cannot be read: ${(error as Error).message}`, exampleOf(sort));
  }
}

function entryOf(sort: EntrySort, file: string, text: string): unknown {
  const example = exampleOf(sort);
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    throw usageError(`${file} is no JSON: ${(error as Error).message}`, example);
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    throw usageError(`${file} holds no entry`, example);
  }
  const fields = Object.entries(parsed).filter(([field]) => !told.includes(field));
  return sort === 'class' ? Object.fromEntries(fields) : withoutForms(Object.fromEntries(fields));
}

/** An operator's image runs in containers: `form` is said of it, and never by it. */
function withoutForms(entry: Record<string, unknown>): unknown {
  if (!Array.isArray(entry.runtimes)) return entry;
  const runtimes = entry.runtimes.map((runtime: unknown) => {
    if (typeof runtime !== 'object' || runtime === null) return runtime;
    return Object.fromEntries(Object.entries(runtime).filter(([field]) => field !== 'form'));
  });
  return { ...entry, runtimes };
}

function printClasses(context: Context, items: readonly GpuClass[]): void {
  const headings = ['CLASS', 'ACCELERATOR', 'CPU', 'MEMORY', 'GPU', 'WEIGHT', 'REGIONS', 'ORIGIN'];
  const rows = items.map((entry) => [
    ...[entry.name, entry.accelerator, `${entry.cpu_millis / 1000}`],
    ...[formatMemory(entry.memory_bytes), gpuText(entry), `${entry.weight}`],
    ...[entry.regions?.join(', ') ?? 'all', entry.origin],
  ]);
  printTable(context, headings, rows);
}

function gpuText({ gpu_memory_bytes, gpu_model, accelerator }: GpuClass): string {
  if (accelerator !== 'nvidia') return '-';
  const size = gpu_memory_bytes === 0 ? 'any size' : formatMemory(gpu_memory_bytes);
  return gpu_model === null ? size : `${gpu_model}, ${size}`;
}

function printImages(context: Context, items: readonly CatalogImage[]): void {
  const headings = ['IMAGE', 'FOR', 'RUNS ON', 'REFERENCE', 'ORIGIN', 'TITLE'];
  const rows = items.map(({ name, kinds, runtimes, origin, title }) => [
    ...[name, kinds.join(', ')],
    [...new Set(runtimes.map(({ accelerator }) => accelerator))].join(', '),
    [...new Set(runtimes.flatMap(({ reference }) => reference ?? []))].join(', ') || '-',
    ...[origin, title],
  ]);
  printTable(context, headings, rows);
}

function printEntry(context: Context, sort: EntrySort, entry: Entry, options: JsonOption): void {
  if (options.json) {
    printJson(context, entry);
    return;
  }
  const now = context.io.clock.now();
  const by =
    entry.changed_at === null
      ? null
      : formatAgo(now - entry.changed_at) +
        (entry.changed_by === null ? '' : ` by ${entry.changed_by}`);
  const own = sort === 'class' ? classPairs(entry as GpuClass) : imagePairs(entry as CatalogImage);
  const pairs = [['name', entry.name], ['origin', entry.origin], ['changed', by], ...own];
  for (const line of pairLines(pairs as [string, string | null][])) printData(context, line);
}

function classPairs(entry: GpuClass): [string, string | null][] {
  return [
    ['accelerator', entry.accelerator],
    ['delivery', entry.delivery],
    ['cpu', `${entry.cpu_millis / 1000}`],
    ['memory', formatMemory(entry.memory_bytes)],
    ['gpu', entry.accelerator === 'nvidia' ? gpuText(entry) : null],
    ['weight', `${entry.weight}`],
    ['regions', entry.regions?.join(', ') ?? 'all'],
  ];
}

function imagePairs({ title, kinds, runtimes }: CatalogImage): [string, string | null][] {
  const ways = runtimes.map(({ accelerator, form, reference, command, uid }): [string, string] => {
    const how = reference ?? `the machine's own programs (${form})`;
    const begins = command.length === 0 ? '' : `, begins ${command.join(' ')}`;
    return [`on ${accelerator}`, `${how}${begins}, as user ${uid}`];
  });
  return [['title', title], ['for', kinds.join(', ')], ...ways];
}
