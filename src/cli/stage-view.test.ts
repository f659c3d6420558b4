import assert from 'node:assert/strict';
import { test } from 'node:test';
import { placed, stage, workload } from '../../test/lib/fake-records.ts';
import type { Workload } from '../contract/workloads.ts';
import { nextStep, nothingShown, stageText } from './stage-view.ts';

/** All lines that a sequence of looks gives. */
function linesOf(looks: Workload[]): string[] {
  let shown = nothingShown;
  return looks.flatMap((look) => {
    const step = nextStep(shown, look);
    shown = step.shown;
    return step.lines.map(({ mark, text }) => `${mark} ${text}`);
  });
}

test('a stage shows its time, and bytes of bytes', () => {
  const done = stage('engine', { state: 'done', duration_ms: 12_400 });
  assert.equal(stageText(done), 'engine    12.4 s');
  const part = stage('model', { done_bytes: 41_200_000, total_bytes: 92_900_000 });
  assert.equal(stageText(part), 'model     41.2 MB of 92.9 MB');
});

test('a total that nobody knows is said and not guessed', () => {
  const part = stage('engine', { done_bytes: 41_200_000 });
  assert.equal(stageText(part), 'engine    41.2 MB, total unknown');
});

test('control characters in a note do not reach the terminal', () => {
  const odd = stage('load', { note: 'evil\u001b[2J\r\nline' });
  assert.equal(stageText(odd), 'load      evil line');
});

test('many looks at the same stage give one line, and its end one more', () => {
  const looks = [1, 2, 3].map((done) =>
    workload({
      state: 'provisioning',
      stages: [stage('model', { done_bytes: done * 1e6, total_bytes: 3e6 })],
    }),
  );
  const last = workload({ stages: [stage('model', { state: 'done', duration_ms: 900 })] });
  assert.deepEqual(linesOf([...looks, last, last]), [
    'running model     1.0 MB of 3.0 MB',
    'done model     900 ms',
  ]);
});

test('a new run shows its stages again', () => {
  const done = stage('sandbox', { state: 'done', duration_ms: 5 });
  const first = workload({ stages: [done] });
  const second = workload({ stages: [done], placement: placed(2) });
  assert.equal(linesOf([first, second]).length, 2);
});

test('a wait says why and its place, again only when one of them changes', () => {
  const reason = {
    code: 'all_matching_busy',
    message: 'Every machine that could run this is busy.',
    fix: 'einsora ls',
  };
  const waiting = (queue_place: number) =>
    workload({ state: 'queued', placement: null, reason, queue_place });
  assert.deepEqual(linesOf([waiting(2), waiting(2), waiting(1)]), [
    'note queued, place 2: Every machine that could run this is busy.',
    'note queued, place 1: Every machine that could run this is busy.',
  ]);
});

test('a machine that is not heard of is said', () => {
  const lines = linesOf([workload({ state: 'provisioning', heard_of: false })]);
  assert.deepEqual(lines, ['note box1 has not been heard of lately; waiting for it']);
});
