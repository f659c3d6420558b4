/**
 * `npm run bench -- NAME [--quick]`: one benchmark of bench/.
 *
 * Invariants: the very last line is one JSON object with the machine, the versions and the bench's
 * own keys; a value that could not be had is null, never left out. `--quick` is a short form that
 * asserts nothing.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { cpus, release, totalmem } from 'node:os';
import { join } from 'node:path';

type Bench = (options: { quick: boolean }) => Promise<Record<string, unknown>>;

const declared = /^export async function bench\b/m;
const folder = join(import.meta.dirname, '../bench');
const [name = ''] = process.argv.slice(2).filter((word) => !word.startsWith('--'));
const bench = await find(name);
if (bench === null) {
  console.error(name === '' ? 'Which one?' : `There is no bench ${name}.`);
  console.error(`There are: ${(await listed()).join(', ')}`);
  process.exitCode = 2;
} else {
  const keys = await bench({ quick: process.argv.includes('--quick') });
  const processors = cpus();
  const line = {
    bench: name,
    machine: {
      cpu: processors[0]?.model ?? 'unknown',
      cores: processors.length,
      memory_bytes: totalmem(),
      kernel: release(),
    },
    versions: { node: process.version, einsora: readVersion() },
    ...keys,
  };
  console.log(JSON.stringify(line));
}

/** The bench of a file that has one: helpers that lie beside it have none. */
async function find(name: string): Promise<Bench | null> {
  if (!/^[a-z][a-z0-9-]*$/.test(name) || !readdirSync(folder).includes(`${name}.ts`)) return null;
  const module: { bench?: Bench } = await import(join(folder, `${name}.ts`));
  return module.bench ?? null;
}

async function listed(): Promise<string[]> {
  const names = readdirSync(folder)
    .filter((file) => /^[a-z0-9-]+\.ts$/.test(file))
    .map((file) => file.slice(0, -'.ts'.length))
    .sort();
  return names.filter((name) => readFileSync(join(folder, `${name}.ts`), 'utf8').match(declared));
}

function readVersion(): string {
  const text = readFileSync(join(import.meta.dirname, '../package.json'), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
