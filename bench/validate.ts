/**
 * How long the validators take for a 10 GB model of each format, and whether they are right about
 * the battery.
 *
 * Invariants: the models are sparse files with realistic headers, so that they take no room; each
 * validator and its physical limit (reading the same header bytes raw) take turns in one run. The
 * files are in the page cache for both, as they are after a download.
 */
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../src/lib/clock.ts';
import { validateModel } from '../src/models/validate.ts';
import { battery } from '../test/lib/gguf-battery.ts';
import { modelFolders, writeModelFolder } from '../test/lib/model-folders.ts';
import { safetensorsBattery } from '../test/lib/safetensors-battery.ts';
import { type LargeModel, largeGguf, largeSafetensors } from './validate-models.ts';

export type ValidateResult = Record<string, number | null>;

/** Prints a table and returns its figures; `quick` takes fewer rounds. */
export async function bench({ quick }: { quick: boolean }): Promise<ValidateResult> {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-bench-'));
  try {
    const runs = quick ? 5 : 15;
    const result = {
      runs,
      ...(await measureLarge('gguf', join(folder, 'large.gguf'), largeGguf(), runs)),
      ...(await measureLarge(
        'safetensors',
        join(folder, 'large.safetensors'),
        largeSafetensors(),
        runs,
      )),
      ...(await checkBattery(folder)),
    };
    printTable(result);
    return result;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function measureLarge(
  format: string,
  path: string,
  { header, data_bytes }: LargeModel,
  runs: number,
): Promise<ValidateResult> {
  writeFileSync(path, header);
  truncateSync(path, header.length + data_bytes);
  const first_ms = await timed(() => expectValid(path));
  const validated: number[] = [];
  const raw: number[] = [];
  for (let run = 0; run < runs; run += 1) {
    raw.push(await timed(() => readRaw(path, header.length)));
    validated.push(await timed(() => expectValid(path)));
  }
  return {
    [`${format}_10gb_ms`]: median(validated),
    [`${format}_10gb_min_ms`]: Math.min(...validated),
    [`${format}_10gb_max_ms`]: Math.max(...validated),
    [`${format}_10gb_first_ms`]: first_ms,
    [`${format}_raw_read_ms`]: median(raw),
    [`${format}_raw_read_min_ms`]: Math.min(...raw),
    [`${format}_raw_read_max_ms`]: Math.max(...raw),
    [`${format}_header_mb`]: header.length / 1e6,
    [`${format}_file_gb`]: (header.length + data_bytes) / 1e9,
  };
}

async function expectValid(path: string): Promise<void> {
  const verdict = await validateModel(path);
  if (!verdict.ok) throw new Error(`the large model was refused: ${verdict.message}`);
}

/** The least that any walk of this header costs: its bytes, in chunks of the same size. */
async function readRaw(path: string, bytes: number): Promise<void> {
  const file = await open(path, 'r');
  const chunk = Buffer.allocUnsafeSlow(1 << 20);
  for (let at = 0; at < bytes; at += chunk.length) {
    await file.read(chunk, 0, Math.min(chunk.length, bytes - at), at);
  }
  await file.close();
}

async function checkBattery(folder: string): Promise<ValidateResult> {
  let wrong = 0;
  let files = 0;
  const judge = async (path: string, name: string, rule: string | null) => {
    files += 1;
    const verdict = await validateModel(path);
    const found = verdict.ok ? null : verdict.rule;
    if (found === rule) return;
    wrong += 1;
    console.log(`wrong about "${name}": ${found ?? 'accepted'}, not ${rule ?? 'accepted'}`);
  };
  for (const { name, rule, bytes } of [...battery(), ...safetensorsBattery()]) {
    const path = join(folder, 'battery');
    writeFileSync(path, bytes);
    await judge(path, name, rule);
  }
  for (const [index, model] of modelFolders().entries()) {
    const path = writeModelFolder(join(folder, `folder-${index}`), model);
    await judge(path, model.name, model.rule);
  }
  return { battery_files: files, battery_wrong: wrong };
}

async function timed(work: () => Promise<void>): Promise<number> {
  const start = systemClock.monotonic();
  await work();
  return Math.round((systemClock.monotonic() - start) * 100) / 100;
}

function median(values: readonly number[]): number {
  return [...values].sort((one, other) => one - other)[Math.floor(values.length / 2)] ?? 0;
}

function printTable(result: ValidateResult): void {
  const at = (key: string) => result[key] ?? '-';
  for (const format of ['gguf', 'safetensors']) {
    const size = Number(at(`${format}_file_gb`)).toFixed(1);
    const header = Number(at(`${format}_header_mb`)).toFixed(2);
    console.log(`${format}, ${size} GB with ${header} MB of header, ${at('runs')} rounds each`);
    console.log('                    median      least       most');
    for (const [label, key] of [
      ['validated', `${format}_10gb`],
      ['same bytes raw', `${format}_raw_read`],
    ]) {
      const figures = [`${key}_ms`, `${key}_min_ms`, `${key}_max_ms`].map((one) =>
        `${at(one)} ms`.padStart(11),
      );
      console.log(`${label?.padEnd(15)}${figures.join('')}`);
    }
    console.log(`the first time, before the code is compiled: ${at(`${format}_10gb_first_ms`)} ms`);
  }
  console.log(`battery: ${at('battery_files')} models, wrong about ${at('battery_wrong')}`);
}
