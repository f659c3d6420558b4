/**
 * The table of codes: complete sentences, useful fixes, none that nobody uses.
 */
import assert from 'node:assert/strict';
import { globSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fixOf, isReasonCode, type ReasonCode, reasons, sentenceOf } from './reasons.ts';

const codes = Object.keys(reasons) as ReasonCode[];
const source = join(import.meta.dirname, '..');

const places = (text: string | null) =>
  [...(text ?? '').matchAll(/\{(\w+)\}/g)].map((match) => match[1] ?? '');

test('codes are snake_case, statuses are those of HTTP', () => {
  for (const code of codes) {
    assert.match(code, /^[a-z]+(?:_[a-z]+)*$/);
    const { status } = reasons[code];
    assert.ok(status === 200 || (status >= 400 && status <= 599), `${code} ${status}`);
  }
});

test('every sentence is one, and reads well with its details filled in', () => {
  for (const code of codes) {
    const { sentence } = reasons[code];
    assert.match(sentence, /^[A-Z{]/, code);
    assert.match(sentence, /[.}]$/, code);
    const details = Object.fromEntries(places(sentence).map((name) => [name, `<${name}>`]));
    const filled = sentenceOf(code, details);
    assert.equal(filled.includes('{'), false, code);
    for (const name of places(sentence)) assert.ok(filled.includes(`<${name}>`), code);
  }
});

test('a fix needs no detail but the name and those of its sentence, or a path', () => {
  const of_sources = ['url', 'page', 'origin', 'example', 'repo', 'file', 'hub', 'host'];
  const also = ['again', 'name', 'list', 'path', 'data_dir', 'suggestion', ...of_sources, 'secret'];
  for (const code of codes) {
    const known = [...places(reasons[code].sentence), ...also];
    for (const name of places(reasons[code].fix)) assert.ok(known.includes(name), code);
  }
});

test('no code stands in two tables', () => {
  const folder = join(import.meta.dirname, 'reasons');
  const texts = readdirSync(folder).map((name) => readFileSync(join(folder, name), 'utf8'));
  const own = readFileSync(join(import.meta.dirname, 'reasons.ts'), 'utf8');
  const found = [own, ...texts].flatMap((text) =>
    [...text.matchAll(/^ {2}(\w+): (?:\{|gpu\(|waits\(|why\()/gm)].map(([, code]) => code),
  );
  const twice = found.filter((code, index) => found.indexOf(code) !== index);
  assert.deepEqual(twice, []);
  assert.ok(found.length > 200, `${found.length} were found`);
});

test('a fix without its details still says what to put there', () => {
  assert.match(fixOf('engine_exited', {}) ?? '', /<name>/);
  assert.match(fixOf('engine_exited', { name: 'chat' }) ?? '', /einsora logs chat$/);
  assert.equal(fixOf('cross_site'), null);
  assert.equal(fixOf('not_found', { what: 'workload x' }), 'bin/einsora ls');
  assert.equal(fixOf('not_found', { list: 'users ls' }), 'bin/einsora users ls');
});

test('details are put in as they are, braces and dollars too', () => {
  const problem = '{limit} $& $1';
  assert.equal(sentenceOf('bad_request', { problem }), `The request is not valid: ${problem}.`);
});

test('a detail that is a sentence ends with one full stop', () => {
  const rule = 'Only GGUF can be loaded.';
  assert.equal(sentenceOf('bad_request', { problem: rule }), `The request is not valid: ${rule}`);
});

test('only a code of the table is one', () => {
  for (const code of codes) assert.ok(isReasonCode(code));
  for (const other of ['', 'toString', '__proto__', 'made_up']) {
    assert.equal(isReasonCode(other), false, other);
  }
});

test('every code of the table is used somewhere', () => {
  const texts = globSync('**/*.ts', { cwd: source })
    .filter((path) => !path.endsWith('.test.ts') && path !== 'core/reasons.ts')
    .map((path) => readFileSync(join(source, path), 'utf8'))
    .join('\n');
  const unused = codes.filter((code) => !texts.includes(`'${code}'`));
  assert.deepEqual(unused, []);
});

test('every code that an error is made of is in the table', () => {
  const made = globSync('**/*.ts', { cwd: source }).flatMap((path) =>
    path.endsWith('.test.ts')
      ? []
      : [...readFileSync(join(source, path), 'utf8').matchAll(/new EinsoraError\('(\w+)'/g)],
  );
  assert.ok(made.length > 10);
  for (const [, code = ''] of made) assert.ok(isReasonCode(code), code);
});
