/**
 * Puts one mutant into the program while it is loaded: `node --import test/sim/mutate.ts`, with its
 * name in EINSORA_SIM_MUTANT.
 *
 * Invariants: the text that it replaces is there exactly once, and its file is loaded, or the
 * process fails: a mutant that changes nothing would be one that nobody can catch.
 */
import { registerHooks } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { mutantOf } from './mutants/all.ts';
import { patch, patchesOf } from './mutants/mutant.ts';

const root = join(import.meta.dirname, '../..');
const mutant = mutantOf(process.env.EINSORA_SIM_MUTANT ?? '');
const patches = patchesOf(mutant);
const urlOf = (file: string) => pathToFileURL(join(root, file)).href;
const due = new Set(patches.map(({ file }) => file));

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    const here = patches.filter(({ file }) => urlOf(file) === url);
    const [first] = here;
    if (first === undefined) return loaded;
    due.delete(first.file);
    const source = here.reduce((text, one) => patch(one, text), textOf(loaded.source));
    return { ...loaded, source };
  },
});

process.on('exit', () => {
  if (due.size === 0) return;
  console.error(`nothing loads ${[...due].join(', ')}, so ${mutant.name} is not there`);
  process.exitCode = 1;
});

function textOf(source: string | ArrayBuffer | NodeJS.TypedArray | undefined | null): string {
  if (source === undefined || source === null) throw new Error('a file that is loaded has no text');
  return typeof source === 'string' ? source : new TextDecoder().decode(source);
}
