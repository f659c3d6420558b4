import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fixHere } from './cli-error.ts';
import { loadConfig } from './config.ts';

const system = { platform: 'linux', home: '/home/ada' };
const here = (options: { data_dir?: string; context?: string }, fix: string) =>
  fixHere(loadConfig(options, {}, system), fix);

test('what helps is asked of the control plane that refused', () => {
  const two = 'bin/einsora ls, then stop what is not needed: bin/einsora stop <name>';
  assert.equal(here({}, two), two);
  assert.equal(
    here({ data_dir: '/d' }, 'bin/einsora users ls'),
    'bin/einsora users ls --data-dir /d',
  );
  assert.equal(
    here({ context: 'lab' }, two),
    'bin/einsora --context lab ls, then stop what is not needed: bin/einsora --context lab stop <name>',
  );
});

test('of several commands, each that names no place gets one', () => {
  assert.equal(
    here({ data_dir: '/d' }, 'bin/einsora open, or: bin/einsora up --data-dir ~/other'),
    'bin/einsora --data-dir /d open, or: bin/einsora up --data-dir ~/other',
  );
});

test('what names its place, or is of none, stays as it is', () => {
  for (const fix of [
    'bin/einsora up --data-dir /other',
    'bin/einsora context ls',
    'did you mean ls?',
  ]) {
    assert.equal(here({ data_dir: '/d' }, fix), fix);
  }
});
