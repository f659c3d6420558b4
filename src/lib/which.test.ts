import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { findProgram } from './which.ts';

test('the first executable file of the PATH counts, not folders, other files or relative ways', () => {
  const root = mkdtempSync(join(tmpdir(), 'einsora-which-'));
  try {
    const [a, b, c] = ['a', 'b', 'c'].map((name) => join(root, name));
    mkdirSync(join(a ?? '', 'tool'), { recursive: true });
    for (const folder of [b ?? '', c ?? '']) {
      mkdirSync(folder);
      writeFileSync(join(folder, 'tool'), '');
    }
    chmodSync(join(c ?? '', 'tool'), 0o755);
    assert.equal(findProgram('tool', `.:${a}:${b}::${c}`), join(c ?? '', 'tool'));
    assert.equal(findProgram('tool', `${a}:${b}`), null);
    assert.equal(findProgram('tool', undefined), null);
  } finally {
    rmSync(root, { recursive: true });
  }
});
