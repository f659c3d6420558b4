/**
 * The safetensors validator against its battery, random valid files, and cuts.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import fc from 'fast-check';
import { safetensorsBattery } from '../../test/lib/safetensors-battery.ts';
import { type SafeTensor, safetensorsFile } from '../../test/lib/safetensors-writer.ts';
import { type ModelVerdict, validateModel } from './validate.ts';

const folder = mkdtempSync(join(tmpdir(), 'einsora-safetensors-'));
after(() => rmSync(folder, { recursive: true }));
const path = join(folder, 'model.safetensors');

async function verdictOf(bytes: Uint8Array): Promise<ModelVerdict> {
  writeFileSync(path, bytes);
  return validateModel(path);
}

describe('the battery', () => {
  for (const { name, rule, bytes } of safetensorsBattery()) {
    test(rule === null ? `accepts: ${name}` : `refuses as ${rule}: ${name}`, async () => {
      const verdict = await verdictOf(bytes);
      assert.equal(verdict.ok ? null : verdict.rule, rule, verdict.ok ? '' : verdict.message);
      if (!verdict.ok) {
        assert.equal(verdict.code, 'model_file_invalid');
        assert.equal(verdict.where.path, path);
      }
    });
  }
});

test('the facts are those that the file was written with', async () => {
  const tensors = {
    a: { dtype: 'F32', shape: [3, 4] },
    b: { dtype: 'BF16', shape: [5] },
  };
  const verdict = await verdictOf(safetensorsFile({ tensors }));
  assert.ok(verdict.ok && verdict.model.format === 'safetensors');
  const { tensor_count, tensor_bytes, parameter_count, types } = verdict.model;
  assert.deepEqual(
    { tensor_count, tensor_bytes, parameter_count, types },
    { tensor_count: 2, tensor_bytes: 58, parameter_count: 17, types: ['BF16', 'F32'] },
  );
});

test('a refusal says how far the walk had come', async () => {
  const verdict = await verdictOf(safetensorsFile({ header: '{"w":3}' }));
  assert.ok(!verdict.ok);
  assert.equal(verdict.where.byte, 8);
});

const shape = fc.array(fc.integer({ min: 0, max: 6 }), { maxLength: 4 });
const dtype = fc.constantFrom('F32', 'BF16', 'U8', 'F64', 'F8_E4M3');
const name = fc
  .string({ unit: 'grapheme', minLength: 1, maxLength: 40 })
  .filter((one) => !/\p{Cc}/u.test(one) && one !== '__metadata__');
const file = fc
  .dictionary(name, fc.record({ dtype, shape }), { minKeys: 1, maxKeys: 20 })
  .map((tensors) => ({ tensors: tensors as Record<string, SafeTensor> }));

test('random valid files are accepted', async () => {
  await fc.assert(
    fc.asyncProperty(file, async (one) => {
      const verdict = await verdictOf(safetensorsFile(one));
      assert.ok(verdict.ok, verdict.ok ? '' : verdict.message);
      assert.equal(verdict.model.tensor_count, Object.keys(one.tensors).length);
    }),
    { seed: 1, numRuns: 100 },
  );
});

test('a file cut anywhere is refused', async () => {
  await fc.assert(
    fc.asyncProperty(file, fc.double({ min: 0, max: 1, noNaN: true }), async (one, part) => {
      const bytes = safetensorsFile(one);
      assert.equal((await verdictOf(bytes)).ok, true);
      truncateSync(path, Math.floor((bytes.length - 1) * part));
      assert.equal((await validateModel(path)).ok, false);
    }),
    { seed: 2, numRuns: 100 },
  );
});
