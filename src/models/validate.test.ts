/**
 * What decides about a path: the content of a file, all parts of a split model, a whole folder.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { battery } from '../../test/lib/gguf-battery.ts';
import { ggufFile } from '../../test/lib/gguf-writer.ts';
import { successorModel } from '../../test/lib/known-answer.ts';
import { modelFolders, writeModelFolder } from '../../test/lib/model-folders.ts';
import { safetensorsBattery } from '../../test/lib/safetensors-battery.ts';
import { safetensorsFile } from '../../test/lib/safetensors-writer.ts';
import { exec } from '../lib/exec.ts';
import { validateModel } from './validate.ts';
import { model_rules } from './validate-refusal.ts';

const folder = mkdtempSync(join(tmpdir(), 'einsora-validate-'));
after(() => rmSync(folder, { recursive: true }));

describe('models of several files', () => {
  modelFolders().forEach((model, index) => {
    const { name, rule } = model;
    test(rule === null ? `accepts: ${name}` : `refuses as ${rule}: ${name}`, async () => {
      const path = writeModelFolder(join(folder, String(index)), model);
      const verdict = await validateModel(path);
      assert.equal(verdict.ok ? null : verdict.rule, rule, verdict.ok ? '' : verdict.message);
    });
  });

  test('break, with the files, every rule but those of the file system', () => {
    const all = [...battery(), ...safetensorsBattery(), ...modelFolders()];
    const broken = new Set(all.map(({ rule }) => rule));
    const untested = Object.keys(model_rules).filter((rule) => !broken.has(rule));
    assert.deepEqual(untested, ['missing', 'not_a_file', 'unreadable', 'changed']);
  });

  test('are told of as one', async () => {
    const models = modelFolders().filter(({ rule }) => rule === null);
    const [split, whole] = models;
    assert.ok(split !== undefined && whole !== undefined);
    const gguf = await validateModel(writeModelFolder(join(folder, 'split'), split));
    assert.ok(gguf.ok && gguf.model.format === 'gguf');
    assert.equal(gguf.model.tensor_count, 12);
    assert.equal(gguf.model.architecture, 'llama');
    const safe = await validateModel(writeModelFolder(join(folder, 'whole'), whole));
    assert.ok(safe.ok && safe.model.format === 'safetensors');
    assert.equal(safe.model.architecture, 'LlamaForCausalLM');
    assert.equal(safe.model.context_length, 8192);
    assert.equal(safe.model.chat_template, true);
    assert.equal(safe.model.tensor_count, 3);
  });
});

describe('a file that is no model', () => {
  const tar = Buffer.alloc(600);
  tar.write('archive/', 0);
  tar.write('ustar', 257);
  const kinds: [string, Buffer | string, RegExp][] = [
    ['a pickle', Buffer.from([0x80, 4, 0x95]), /This is a Python pickle, neither GGUF nor/],
    ['an old pickle', 'cos\nsystem\n', /This is a Python pickle/],
    ['an old pickle of a list', '(lp0\nc__builtin__\neval\n', /This is a Python pickle/],
    ['a ZIP archive', 'PK\u0003\u0004', /This is a ZIP archive/],
    ['a tar archive', tar, /This is a tar archive/],
    ['a gzip file', Buffer.from([0x1f, 0x8b, 8]), /This is a gzip file/],
    ['a web page', '\n<HTML>', /This is a web page/],
    ['an error of a hub', '{"error":"Repository not found"}', /This is JSON/],
    ['an HDF5 file', Buffer.from('\u0089HDF\r\n', 'latin1'), /This is an HDF5 file/],
    ['an empty file', '', /This is an empty file/],
    ['a file of zeros', Buffer.alloc(100), /This is a file of zeros/],
  ];
  for (const [name, bytes, sentence] of kinds) {
    test(`is named for what it is: ${name}`, async () => {
      const path = join(folder, 'model.gguf');
      writeFileSync(path, bytes);
      const verdict = await validateModel(path);
      assert.ok(!verdict.ok);
      assert.equal(verdict.rule, 'unknown_format');
      assert.match(verdict.message, sentence);
    });
  }

  test('is judged by its content and not by its name', async () => {
    const small = successorModel({ name: 'x', words: ['ab'], ends: true, width: 16, blocks: 1 });
    const path = join(folder, 'model.pkl');
    for (const [format, bytes] of [
      ['gguf', ggufFile(small)],
      ['safetensors', safetensorsFile({ tensors: { w: { dtype: 'F32', shape: [2] } } })],
    ] as const) {
      writeFileSync(path, bytes);
      const verdict = await validateModel(path);
      assert.equal(verdict.ok && verdict.model.format, format);
    }
  });
});

test('what is no readable file is unreadable, with the reason', async () => {
  const loop = join(folder, 'loop');
  symlinkSync(loop, loop);
  const pipe = join(folder, 'pipe');
  assert.equal((await exec('/usr/bin/mkfifo', [pipe], { timeout_ms: 5000 })).code, 0);
  const cases = [
    [join(folder, 'nothing.gguf'), 'missing'],
    ['/dev/zero', 'not_a_file'],
    [pipe, 'not_a_file'],
    [loop, 'unreadable'],
  ] as const;
  for (const [path, rule] of cases) {
    const verdict = await validateModel(path);
    assert.ok(!verdict.ok);
    assert.deepEqual([verdict.code, verdict.rule], ['model_file_unreadable', rule]);
    assert.equal(verdict.where.path, path);
  }
});
