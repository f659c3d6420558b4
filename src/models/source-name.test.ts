import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { allShards, isPlainPath, readShardIndex, shardName } from './shards.ts';
import { type HubName, parseModelName, sourceText } from './source-name.ts';

const hub = (repo: string, more: Partial<HubName> = {}): HubName => ({
  ...{ kind: 'hub', repo, revision: null, path: null, quant: null },
  ...more,
});

test('a model is a catalog name, a path, a file URL, or refused with the scheme', () => {
  const file = (path: string) => ({ kind: 'file', path });
  assert.deepEqual(parseModelName('smollm2-135m'), { kind: 'catalog', name: 'smollm2-135m' });
  assert.deepEqual(parseModelName('/a b/c%20d.gguf'), file('/a b/c%20d.gguf'));
  assert.deepEqual(parseModelName('file:///a%20b.gguf'), file('/a b.gguf'));
  assert.deepEqual(parseModelName('FILE://localhost/a.gguf'), file('/a.gguf'));
  assert.deepEqual(parseModelName('http://x/a.gguf'), { kind: 'unsupported', scheme: 'http' });
  assert.deepEqual(parseModelName('S3://b/k'), { kind: 'unsupported', scheme: 's3' });
  assert.deepEqual(parseModelName('ftp2://x/y'), { kind: 'unsupported', scheme: 'ftp2' });
  for (const text of ['nope', 'org/name', 'smollm2-135m:latest', './a.gguf', '~/a.gguf']) {
    assert.deepEqual(parseModelName(text), { kind: 'unknown' }, text);
  }
});

test('a path is decoded once, and one with a NUL or that hides something is invalid', () => {
  assert.deepEqual(parseModelName('file:///a%2541'), { kind: 'file', path: '/a%41' });
  const bad = ['/a\0b', 'file:///a%00b', 'file:///a%zz', 'file:///a%2Fb', 'file://host/a'];
  for (const text of [...bad, 'file:a.gguf', 'file:///a?b', 'file:///a#b']) {
    assert.equal(parseModelName(text).kind, 'invalid', text);
  }
});

test('a model of a hub has one meaning, however it is written', () => {
  const table: [string, HubName][] = [
    ['hf://o/r', hub('o/r')],
    ['hf:o/r', hub('o/r')],
    ['HF://Qwen/Qwen3-0.6B-GGUF', hub('Qwen/Qwen3-0.6B-GGUF')],
    ['hf://o/r/', hub('o/r')],
    ['hf://o/r:Q4_K_M', hub('o/r', { quant: 'Q4_K_M' })],
    ['hf://o/r@main:Q4_0', hub('o/r', { revision: 'main', quant: 'Q4_0' })],
    ['hf://o/r/a/b.gguf', hub('o/r', { path: 'a/b.gguf' })],
    ['hf://o/r@v1/b:c@d.gguf', hub('o/r', { revision: 'v1', path: 'b:c@d.gguf' })],
    ['hf://o/r@refs%2Fpr%2F1', hub('o/r', { revision: 'refs/pr/1' })],
    ['hf.co/o/r', hub('o/r')],
    ['hf.co/o/r:Q8_0', hub('o/r', { quant: 'Q8_0' })],
    ['hf.co/o/r/b.gguf', hub('o/r', { path: 'b.gguf' })],
    ['https://huggingface.co/o/r', hub('o/r')],
    ['https://www.huggingface.co/o/r/tree/v2', hub('o/r', { revision: 'v2' })],
    ['huggingface.co/o/r/blob/main/b.gguf', hub('o/r', { revision: 'main', path: 'b.gguf' })],
    [
      'https://hf.co/o/r/resolve/main/a%20b.gguf?download=true',
      hub('o/r', { revision: 'main', path: 'a b.gguf' }),
    ],
  ];
  for (const [text, meant] of table) {
    assert.deepEqual(parseModelName(text), meant, text);
    assert.deepEqual(parseModelName(sourceText(meant)), meant, sourceText(meant));
  }
});

test('a name of a hub that could lead elsewhere is invalid', () => {
  const repos = ['hf://', 'hf://o', 'hf://o/', 'hf:///r', 'hf://../r', 'hf://o/..', 'hf://o/r--s'];
  const more = ['hf://o/r@', 'hf://o/r@../x', 'hf://o/r@a%zz', 'hf://o/r@a%2F..%2Fb', 'hf://o r/x'];
  const files = ['hf://o/r/../x.gguf', 'hf://o/r//x', 'hf://o/r/a\\b', 'hf://o/r/./x', 'hf://o/r:'];
  const urls = ['hf.co/o/r/resolve/main/%2e%2e%2fx', 'hf.co/o', 'https://hf.co/', 'hf://o/r:a/b'];
  for (const text of [...repos, ...more, ...files, ...urls, 'hf://o/r/a\nb', 'hf://o/r?x']) {
    assert.equal(parseModelName(text).kind, 'invalid', text);
  }
});

test('an https URL stays what it is, without its fragment, and never with a password', () => {
  const url = (text: string) => parseModelName(text);
  assert.deepEqual(url('https://a.example/m.gguf?x=1#y'), {
    ...{ kind: 'https', url: 'https://a.example/m.gguf?x=1' },
  });
  assert.deepEqual(url('HTTPS://A.example:443/m'), { kind: 'https', url: 'https://a.example/m' });
  for (const text of ['https://u:p@a/x', 'https://u@a/x', 'https:', 'https:///x', 'https://a/']) {
    assert.equal(url(text).kind, 'invalid', text);
  }
});

test('the parts of a split model are known by their names', () => {
  assert.deepEqual(shardName('a/m-00002-of-00003.gguf'), { stem: 'a/m', index: 2, count: 3 });
  for (const name of [
    'm.gguf',
    'm-00000-of-00003.gguf',
    'm-00004-of-00003.gguf',
    'm-1-of-3.gguf',
  ]) {
    assert.equal(shardName(name), null, name);
  }
  const all = ['m-00001-of-00002.gguf', 'm-00002-of-00002.gguf'];
  assert.deepEqual(allShards('m-00002-of-00002.gguf'), all);
  assert.deepEqual(allShards('m.gguf'), ['m.gguf']);
});

test('an index of safetensors names plain files or is refused with why', () => {
  const index = (...files: unknown[]) =>
    JSON.stringify({ weight_map: Object.fromEntries(files.map((file, at) => [`t${at}`, file])) });
  const good = readShardIndex(index('b.safetensors', 'a.safetensors', 'b.safetensors'));
  assert.deepEqual(good, { ok: true, files: ['a.safetensors', 'b.safetensors'] });
  const bad = ['../a.safetensors', '/a.safetensors', 'a/../../b.safetensors', 'a\\b.safetensors'];
  for (const file of [...bad, 'C:/a.safetensors', 'a.bin', 'a\0.safetensors', '', 5, null]) {
    assert.equal(readShardIndex(index(file)).ok, false, String(file));
  }
  for (const text of ['', '[]', '{}', '{"weight_map":{}}', '{"weight_map":[]}', 'null']) {
    assert.equal(readShardIndex(text).ok, false, text);
  }
  assert.equal(isPlainPath('a/b.gguf'), true);
});

test('whatever is asked for has a meaning, and a source keeps its meaning when it is spelled out', () => {
  const pieces = fc.constantFrom(
    'hf://',
    'hf.co/',
    'https://',
    'o/r',
    '@',
    'main',
    ':',
    'Q4_0',
    '/',
  );
  const text = fc.array(
    fc.oneof(pieces, fc.string({ maxLength: 4 }), fc.constantFrom('..', '%2F', '\0')),
  );
  fc.assert(
    fc.property(text, (parts) => {
      const name = parseModelName(parts.join(''));
      if (name.kind !== 'hub' && name.kind !== 'https') return;
      assert.deepEqual(parseModelName(sourceText(name)), name);
      if (name.kind === 'hub') assert.match(name.repo, /^[\w][\w.-]*\/[\w][\w.-]*$/);
    }),
    { seed: 33, numRuns: 3000 },
  );
});
