/**
 * Validates spoiled models in a process of its own with little memory, and says what it cost.
 *
 * Usage: models-child.ts FOLDER FIRST_SEED COUNT, or PATH one. Prints one JSON object.
 *
 * Invariants: anything that is no verdict with a rule of ours ends it with an error.
 */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '../../src/lib/clock.ts';
import { validateModel } from '../../src/models/validate.ts';
import { model_rules } from '../../src/models/validate-refusal.ts';
import { base } from '../lib/gguf-changes.ts';
import { ggufFile } from '../lib/gguf-writer.ts';
import { modelFolders, writeModelFolder } from '../lib/model-folders.ts';
import { mutate } from '../lib/mutations.ts';
import { safetensorsFile } from '../lib/safetensors-writer.ts';

const [folder = '', first = '0', count = '0'] = process.argv.slice(2);
const slowest = { ms: 0, what: '' };
const told = { accepted: 0, refused: 0, rules: new Set<string>() };
let most_bytes = 0;

/** What the process holds outside of the heap, which its own limit bounds. */
function outside(): number {
  const { external, arrayBuffers } = process.memoryUsage();
  return Math.max(external, arrayBuffers);
}

async function judge(path: string, what: string): Promise<void> {
  const started_at = systemClock.monotonic();
  const verdict = await validateModel(path);
  const ms = systemClock.monotonic() - started_at;
  most_bytes = Math.max(most_bytes, outside());
  if (ms > slowest.ms) Object.assign(slowest, { ms, what });
  if (verdict.ok) {
    told.accepted += 1;
    return;
  }
  if (!Object.hasOwn(model_rules, verdict.rule)) throw new Error(`${what}: ${verdict.rule}`);
  told.refused += 1;
  told.rules.add(verdict.rule);
}

const tensors = { a: { dtype: 'F32', shape: [8, 8] }, b: { dtype: 'BF16', shape: [6] } };
const metadata = { format: 'pt', note: 'ü"\\' };
const seeds = [
  ggufFile(base),
  ggufFile({ ...base, unpadded_end: true }),
  safetensorsFile({ tensors, metadata }),
];
const whole_folder = modelFolders().find(({ name }) => name === 'a folder');
if (whole_folder === undefined) throw new Error('there is no folder to spoil');

if (first === 'one') {
  await judge(folder, folder);
} else {
  for (let seed = Number(first); seed < Number(first) + Number(count); seed += 1) {
    const path = join(folder, 'model');
    const bytes = seeds[seed % (seeds.length + 1)];
    if (bytes === undefined) {
      const names = Object.keys(whole_folder.files);
      const name = names[seed % names.length] ?? '';
      const content = Buffer.from(whole_folder.files[name] ?? '');
      const files = { ...whole_folder.files, [name]: mutate(content, seed) };
      mkdirSync(path);
      await judge(writeModelFolder(path, { ...whole_folder, files }), `seed ${seed} in ${name}`);
    } else {
      writeFileSync(path, mutate(bytes, seed));
      await judge(path, `seed ${seed}`);
    }
    rmSync(path, { recursive: true });
  }
}
const { accepted, refused, rules } = told;
console.log(JSON.stringify({ accepted, refused, rules: rules.size, slowest, most_bytes }));
