/**
 * The journal: what was written is read after a restart; what cannot be read is left where it is.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { runOf } from '../../test/lib/agent-rig.ts';
import { keepingLog, type LogLine } from '../../test/lib/rig.ts';
import { runName } from '../core/run.ts';
import { type Journal, type JournalEntry, openJournal } from './journal.ts';

const entry: JournalEntry = {
  driver: 'sim',
  intent: 'run',
  boot_id: 'b',
  spec: {
    ...{ kind: 'endpoint', name: 'chat', model: 'm', context_length: null, parallel: 2 },
    ...{ cpu_millis: 1000, memory_bytes: 1, image_id: null, accelerator: null },
  },
  end: null,
  started: false,
};

type Given = { journal: Journal; folder: string; lines: LogLine[] };

function given(name: string, body: (given: Given) => void): void {
  test(name, () => {
    const folder = join(mkdtempSync(join(tmpdir(), 'einsora-journal-')), 'journal');
    const lines: LogLine[] = [];
    try {
      body({ journal: openJournal(folder, keepingLog(lines)), folder, lines });
    } finally {
      rmSync(join(folder, '..'), { recursive: true, force: true });
    }
  });
}

given('an entry is there after a restart as it was written', ({ journal, folder, lines }) => {
  journal.write(runOf(1), entry);
  const exit = { code: 1, signal: null, out_of_memory: false };
  const end = { exit, reason: 'engine_exited', details: { how: 'badly' }, log_tail: 'x' };
  journal.write(runOf(2, 7), { ...entry, intent: 'park', end });
  const again = openJournal(folder, keepingLog(lines));
  assert.deepEqual(again.read(runOf(1)), entry);
  assert.deepEqual(
    again.list().map(({ run }) => run),
    [runOf(1), runOf(2, 7)],
  );
  assert.deepEqual(again.read(runOf(2, 7))?.end, end);
});

given('nobody else can read what was asked to run here', ({ journal, folder }) => {
  journal.write(runOf(1), entry);
  assert.equal(statSync(folder).mode & 0o777, 0o700);
  assert.equal(statSync(join(folder, `${runName(runOf(1))}.json`)).mode & 0o777, 0o600);
});

given('an entry that is removed is gone, and removing it again no error', ({ journal }) => {
  journal.write(runOf(1), entry);
  journal.remove(runOf(1));
  journal.remove(runOf(1));
  assert.equal(journal.read(runOf(1)), null);
  assert.deepEqual(journal.list(), []);
});

given('what cannot be read is said and left alone', ({ journal, folder, lines }) => {
  for (const [number, text] of ['', '{', '{"driver":1}', 'null'].entries()) {
    const path = join(folder, `${runName(runOf(number))}.json`);
    writeFileSync(path, text);
    assert.equal(journal.read(runOf(number)), null);
    assert.ok(existsSync(path));
  }
  writeFileSync(join(folder, 'notes.txt'), 'mine');
  writeFileSync(join(folder, `${runName(runOf(9))}.json.1.tmp`), '{}');
  lines.length = 0;
  assert.deepEqual(journal.list(), []);
  assert.equal(lines.length, 4);
});
