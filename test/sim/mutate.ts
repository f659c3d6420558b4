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
import { mutate } from './mutants/mutant.ts';

const root = join(import.meta.dirname, '../..');
const mutant = mutantOf(process.env.EINSORA_SIM_MUTANT ?? '');
const url = pathToFileURL(join(root, mutant.file)).href;
let is_loaded = false;

registerHooks({
  load(asked, context, nextLoad) {
    const loaded = nextLoad(asked, context);
    if (asked !== url) return loaded;
    is_loaded = true;
    return { ...loaded, source: mutate(mutant, textOf(loaded.source)) };
  },
});

process.on('exit', () => {
  if (is_loaded) return;
  console.error(`nothing loads ${mutant.file}, so ${mutant.name} is not there`);
  process.exitCode = 1;
});

function textOf(source: string | ArrayBuffer | NodeJS.TypedArray | undefined | null): string {
  if (source === undefined || source === null) throw new Error(`${mutant.file} has no text`);
  if (typeof source === 'string') return source;
  return new TextDecoder().decode(source);
}
