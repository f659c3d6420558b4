/**
 * The validator against the battery, random valid files, cuts and flipped bytes.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import fc from 'fast-check';
import { battery } from '../../test/lib/gguf-battery.ts';
import { withEntries } from '../../test/lib/gguf-changes.ts';
import { entry, type GgufTensor, ggufFile } from '../../test/lib/gguf-writer.ts';
import {
  successorModel,
  writeKnownAnswerModel,
  writeSlowModel,
} from '../../test/lib/known-answer.ts';
import { type ModelVerdict, validateModel } from './validate.ts';
import { model_rules } from './validate-refusal.ts';

const folder = mkdtempSync(join(tmpdir(), 'einsora-gguf-'));
after(() => rmSync(folder, { recursive: true }));

async function verdictOf(bytes: Uint8Array, name = 'model.gguf'): Promise<ModelVerdict> {
  const path = join(folder, name);
  writeFileSync(path, bytes);
  return validateModel(path);
}

const small = successorModel({ name: 'small', words: ['ab'], ends: true, width: 16, blocks: 1 });

describe('the battery', () => {
  const files = battery();
  for (const { name, rule, bytes } of files) {
    test(rule === null ? `accepts: ${name}` : `refuses as ${rule}: ${name}`, async () => {
      const verdict = await verdictOf(bytes);
      assert.equal(verdict.ok ? null : verdict.rule, rule, verdict.ok ? '' : verdict.message);
      if (!verdict.ok) assert.equal(verdict.code, 'model_file_invalid');
    });
  }
});

describe('the facts of an accepted model', () => {
  test('are those that the known-answer model was written with', async () => {
    const path = join(folder, 'known.gguf');
    const answer = writeKnownAnswerModel(path);
    assert.equal(answer.completion_tokens, 10);
    assert.deepEqual(await validateModel(path), {
      ok: true,
      model: {
        format: 'gguf',
        architecture: 'llama',
        pooling: null,
        context_length: 32_768,
        block_count: 1,
        embedding_length: 384,
        head_count: 4,
        head_count_kv: 1,
        vocabulary_size: 365,
        name: 'Einsora known answer',
        file_bytes: 2_757_280,
        tensor_count: 12,
        tensor_bytes: 2_747_904,
        parameter_count: 686_976,
        chat_template: true,
        shard: null,
      },
    });
  });

  test('count every tensor of the slow model', async () => {
    const path = join(folder, 'slow.gguf');
    writeSlowModel(path);
    const verdict = await validateModel(path);
    assert.ok(verdict.ok);
    assert.equal(verdict.model.tensor_count, 512 * 9 + 3);
    assert.equal(verdict.model.parameter_count, verdict.model.tensor_bytes / 4);
  });

  test('hold no terminal escapes', async () => {
    const entries = withEntries(entry.string('general.name', '\u001b[2JModel\u0007'));
    const model = successorModel({
      name: '',
      words: ['ab', '▁b'],
      ends: true,
      width: 16,
      blocks: 1,
    });
    const verdict = await verdictOf(ggufFile({ entries, tensors: model.tensors }));
    assert.ok(verdict.ok && verdict.model.format === 'gguf');
    assert.equal(verdict.model.name, 'Model');
  });
});

const key = fc.stringMatching(/^[a-z]{1,8}\.[a-z_.]{1,20}$/).map((one) => `x.${one}`);
const extra = fc.uniqueArray(
  fc.oneof(
    fc.tuple(key, fc.string({ unit: 'grapheme' })).map(([k, v]) => entry.string(k, v)),
    fc.tuple(key, fc.nat()).map(([k, v]) => entry.u32(k, v)),
    fc.tuple(key, fc.array(fc.string({ unit: 'grapheme' }))).map(([k, v]) => entry.strings(k, v)),
    fc.tuple(key, fc.array(fc.integer(), { maxLength: 700 })).map(([k, v]) => entry.i32s(k, v)),
  ),
  { selector: (one) => String(one.key), maxLength: 12 },
);
const tensor_types = [
  [0, 1, 4],
  [1, 1, 2],
  [2, 32, 18],
  [12, 256, 144],
] as const;
const tensor = fc
  .tuple(
    fc.constantFrom(...tensor_types),
    fc.integer({ min: 1, max: 3 }),
    fc.array(fc.integer({ min: 1, max: 5 }), { maxLength: 3 }),
  )
  .map(([[type, block, bytes], blocks, rest]) => ({
    dims: [block * blocks, ...rest],
    type,
    bytes: bytes * blocks * rest.reduce((product, dim) => product * dim, 1),
  }));
const file = fc
  .tuple(extra, fc.array(tensor, { maxLength: 12 }), fc.constantFrom(8, 32, 256, 4096))
  .map(([more, tensors, alignment]) => ({
    alignment,
    entries: [...small.entries, ...more, entry.u32('general.alignment', alignment)],
    tensors: [
      ...small.tensors,
      ...tensors.map((one, index): GgufTensor => ({ ...one, name: `extra.${index}` })),
    ],
  }));

describe('random files', () => {
  test('are accepted when they are valid', async () => {
    await fc.assert(
      fc.asyncProperty(file, fc.boolean(), async (one, unpadded_end) => {
        const verdict = await verdictOf(ggufFile({ ...one, unpadded_end }));
        assert.ok(verdict.ok, verdict.ok ? '' : verdict.message);
        assert.equal(verdict.model.tensor_count, one.tensors.length);
      }),
      { seed: 1, numRuns: 60 },
    );
  });

  test('are refused when they are cut anywhere', async () => {
    await fc.assert(
      fc.asyncProperty(file, fc.double({ min: 0, max: 1, noNaN: true }), async (one, part) => {
        const bytes = ggufFile({ ...one, unpadded_end: true });
        assert.equal((await verdictOf(bytes)).ok, true);
        for (const length of [bytes.length - 1, Math.floor((bytes.length - 1) * part)]) {
          truncateSync(join(folder, 'model.gguf'), length);
          assert.equal((await validateModel(join(folder, 'model.gguf'))).ok, false, `${length}`);
        }
      }),
      { seed: 2, numRuns: 60 },
    );
  });

  test('never throw or hang when bytes are flipped', async () => {
    const bytes = ggufFile(small);
    const flips = fc.array(fc.tuple(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 })), {
      minLength: 1,
      maxLength: 6,
    });
    await fc.assert(
      fc.asyncProperty(flips, async (changes) => {
        const copy = Buffer.from(bytes);
        for (const [at, mask] of changes) copy[at] = (copy[at] ?? 0) ^ mask;
        const verdict = await verdictOf(copy);
        if (!verdict.ok) assert.ok(Object.hasOwn(model_rules, verdict.rule));
      }),
      { seed: 3, numRuns: 400 },
    );
  });
});
