import assert from 'node:assert/strict';
import { test } from 'node:test';
import { heldBack } from './held-back.ts';

test('what a guard does to a run is one sentence, and nothing where it does nothing', () => {
  const said = (guarded: string) => heldBack({ guarded, machine_name: 'desk' });
  assert.equal(
    said('paused on_battery'),
    'It stands still for now, and goes on where it was: desk runs on its battery.',
  );
  assert.equal(
    said('lowered owner_active'),
    'It gets little CPU for now: desk is in use by its owner.',
  );
  assert.deepEqual([said(''), said('paused moon'), heldBack(undefined)], [null, null, null]);
});
