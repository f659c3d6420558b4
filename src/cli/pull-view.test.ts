import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ModelFile } from '../contract/model-files.ts';
import { type Look, pullLine, shortName, withLook } from './pull-view.ts';

const file: ModelFile = {
  ...{ id: 'f1', machine_id: 'm1', machine_name: 'box1', state: 'fetching', format: null },
  ...{ source: 'hf://o/r@0/big-Q4_0.gguf', revision: null, sha256: null, bytes: null },
  ...{ done_bytes: 373_000_000, total_bytes: 600_000_000, in_use_by: [], reason: null },
  ...{ checked: null, created_at: 0 },
};

test('a pull says what, how much, how fast and how long still', () => {
  const looks = [
    { at: 0, done_bytes: 349_000_000 },
    { at: 2000, done_bytes: 373_000_000 },
  ];
  assert.equal(
    pullLine(file, looks),
    'pulling big-Q4_0.gguf  62% ▕████████████▍       ▏ 373 MB of 600 MB  12.0 MB/s  18.9 s left',
  );
  const standing = [
    { at: 0, done_bytes: 5 },
    { at: 2000, done_bytes: 5 },
  ];
  assert.match(pullLine(file, standing), / 0 B\/s$/);
});

test('what is not known is not guessed', () => {
  assert.equal(
    pullLine({ ...file, state: 'queued' }, []),
    'pulling big-Q4_0.gguf  waiting for box1',
  );
  assert.equal(pullLine({ ...file, total_bytes: null }, []), 'pulling big-Q4_0.gguf');
  assert.match(pullLine(file, []), /373 MB of 600 MB$/);
  assert.match(pullLine({ ...file, done_bytes: 600_000_000 }, []), /100% ▕█{20}▏/);
  assert.match(pullLine({ ...file, done_bytes: 0 }, []), / 0% ▕ {20}▏/);
});

test('the speed is that of the last seconds, and begins anew where bytes were lost', () => {
  let looks: Look[] = [];
  for (let at = 0; at <= 8000; at += 1000) looks = withLook(looks, { at, done_bytes: at });
  assert.deepEqual(looks[0], { at: 3000, done_bytes: 3000 });
  assert.deepEqual(withLook(looks, { at: 9000, done_bytes: 10 }), [{ at: 9000, done_bytes: 10 }]);
});

test('a model is called by the last part of its source, as plain text', () => {
  assert.equal(shortName('smollm2-135m'), 'smollm2-135m');
  assert.equal(shortName('https://a.example/x/y.gguf'), 'y.gguf');
  assert.equal(shortName('hf://o/r\u001b[31m'), 'r');
});
