/**
 * Models by writers that know nothing of our validators: every one is accepted. And the other way
 * round: no safetensors file is accepted that the format's own reader refuses.
 */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { checkTemplate } from '../../src/models/gguf-template.ts';
import { validateModel } from '../../src/models/validate.ts';
import { mutate } from '../lib/mutations.ts';
import { needs } from '../lib/parts.ts';
import { chat_templates, runWriter } from '../lib/python-writers.ts';
import { safetensorsBattery } from '../lib/safetensors-battery.ts';
import { safetensorsFile } from '../lib/safetensors-writer.ts';

const root = mkdtempSync(join(tmpdir(), 'einsora-honest-'));
after(() => rmSync(root, { recursive: true }));

async function written(script: string): Promise<{ folder: string; count: number }> {
  const folder = join(root, script);
  mkdirSync(folder);
  return { folder, count: Number(await runWriter(script, [folder, chat_templates])) };
}

async function refusals(paths: readonly string[]): Promise<string[]> {
  const verdicts = await Promise.all(
    paths.map(async (path) => [path, await validateModel(path)] as const),
  );
  return verdicts.flatMap(([path, verdict]) => (verdict.ok ? [] : [`${path}: ${verdict.message}`]));
}

test('every GGUF model of an independent writer is accepted', needs('python'), async () => {
  const { folder, count } = await written('write_gguf.py');
  const names = readdirSync(folder).filter((name) => !/-of-/.test(name) || /-00001-of-/.test(name));
  assert.equal(names.length, count);
  assert.ok(count >= 20, `${count} models`);
  assert.deepEqual(await refusals(names.map((name) => join(folder, name))), []);
});

test('every safetensors model of an independent writer is accepted', needs('python'), async () => {
  const { folder, count } = await written('write_safetensors.py');
  const names = readdirSync(folder);
  assert.equal(names.length, count);
  assert.ok(count >= 20, `${count} models`);
  assert.deepEqual(await refusals(names.map((name) => join(folder, name))), []);
});

test('every chat template as people write them is accepted', () => {
  const names = readdirSync(chat_templates);
  assert.ok(names.length >= 12);
  for (const name of names) checkTemplate(readFileSync(join(chat_templates, name), 'utf8'));
});

test(
  'no safetensors file is accepted that the reader of the format refuses',
  needs('python'),
  async () => {
    const folder = join(root, 'both');
    mkdirSync(folder);
    const good = safetensorsFile({
      tensors: { a: { dtype: 'F32', shape: [20, 30] }, b: { dtype: 'BF16', shape: [4] } },
      metadata: { format: 'pt' },
    });
    const files = [
      ...safetensorsBattery().map(({ bytes }) => bytes),
      ...Array.from({ length: 1500 }, (_, seed) => mutate(good, seed)),
    ];
    for (const [index, bytes] of files.entries()) {
      writeFileSync(join(folder, `${index}.safetensors`), bytes);
    }
    const opens = JSON.parse(await runWriter('read_safetensors.py', [folder])) as Record<
      string,
      boolean
    >;
    const laxer: string[] = [];
    let accepted = 0;
    for (const [name, is_opened] of Object.entries(opens)) {
      const { ok } = await validateModel(join(folder, name));
      if (ok) accepted += 1;
      if (ok && !is_opened) laxer.push(name);
    }
    assert.deepEqual(laxer, []);
    assert.ok(accepted > 50, `only ${accepted} were accepted, so that nothing was compared`);
  },
);
