/**
 * Notes for the activity log: what counts as one look, what as one refusal, and what is dropped.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createFakeClock } from '../../test/lib/fake-clock.ts';
import { keepingLog, type LogLine } from '../../test/lib/rig.ts';
import type { Action } from '../store/activity.ts';
import { createActivityNotes } from './activity-notes.ts';

function given() {
  const clock = createFakeClock();
  const lines: LogLine[] = [];
  const notes = createActivityNotes({ clock, log: keepingLog(lines) });
  let count = 0;
  const action = (over: Partial<Action> = {}): Action => {
    count += 1;
    return {
      id: `id-${count}`,
      tenant_id: 't',
      user_id: 'u',
      actor: 'user:ada',
      via: 'token',
      proof_id: 'proof',
      request_id: `request-${count}`,
      route: 'showWorkload',
      now: clock.now(),
      ...over,
    };
  };
  return { clock, notes, action, lines };
}

test('a poll is one row however long it goes on, told again after an hour', async () => {
  const { clock, notes, action } = given();
  let written = 0;
  for (let second = 0; second < 2 * 3600; second += 1) {
    notes.read(action(), 'workload:chat');
    written += notes.take(100).length;
    await clock.advance(1000);
  }
  assert.equal(written, 2);
});

test('after a pause of five minutes it is another look', async () => {
  const { clock, notes, action } = given();
  notes.read(action(), 'workload:chat');
  await clock.advance(299_000);
  notes.read(action(), 'workload:chat');
  assert.equal(notes.take(100).length, 1);
  await clock.advance(300_000);
  notes.read(action(), 'workload:chat');
  assert.equal(notes.take(100).length, 1);
});

test('another proof, route or object is another look', () => {
  const { notes, action } = given();
  notes.read(action(), 'workload:a');
  notes.read(action(), 'workload:b');
  notes.read(action({ route: 'listEvents' }), 'workload:a');
  notes.read(action({ proof_id: 'another' }), 'workload:a');
  notes.read(action(), 'workload:a');
  assert.deepEqual(
    notes.take(100).map(({ action, target, outcome }) => [action.request_id, target, outcome]),
    [
      ['request-1', 'workload:a', 'done'],
      ['request-2', 'workload:b', 'done'],
      ['request-3', 'workload:a', 'done'],
      ['request-4', 'workload:a', 'done'],
    ],
  );
});

test('a flood of one refusal is a row at once, and one a minute with the count', async () => {
  const { clock, notes, action } = given();
  const rows = [];
  for (let second = 0; second < 150; second += 1) {
    notes.refused(action(), 'workload:x', 'not_found');
    rows.push(...notes.take(100));
    await clock.advance(1000);
  }
  notes.end();
  rows.push(...notes.take(100));
  assert.deepEqual(
    rows.map((row) => row.details),
    [{}, { more: 59 }, {}, { more: 59 }, {}, { more: 29 }],
  );
  assert.ok(rows.every((row) => row.outcome === 'not_found'));
  assert.equal(new Set(rows.map((row) => row.action.id)).size, rows.length);
});

test('what was not written comes first the next time', () => {
  const { notes, action } = given();
  for (const target of ['a', 'b', 'c']) notes.read(action(), target);
  const taken = notes.take(2);
  notes.putBack(taken);
  assert.deepEqual(
    notes.take(10).map((note) => note.target),
    ['a', 'b', 'c'],
  );
});

test('it is bounded, and says in the log how many it dropped', async () => {
  const { clock, notes, action, lines } = given();
  for (let count = 0; count < 30_000; count += 1) notes.read(action(), `workload:${count}`);
  for (let count = 0; count < 5000; count += 1) {
    notes.refused(action({ proof_id: `p${count}` }), null, 'forbidden');
  }
  let written = 0;
  for (let taken = 1; taken > 0; written += taken) taken = notes.take(1000).length;
  assert.equal(written, 10_000);
  await clock.advance(61_000);
  notes.take(1);
  assert.ok(lines.some((line) => line.level === 'warn' && Number(line.lost) > 20_000));
});
