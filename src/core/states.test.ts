/**
 * The table of states: what is always possible, what never is.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { isMetered, isSettled, nextState, type State, stateEvents, states } from './states.ts';

const anyEvents = fc.array(fc.constantFrom(...stateEvents), { maxLength: 30 });
const anyState = fc.constantFrom(...states);

test('nothing leaves deleted', () => {
  for (const event of stateEvents) assert.equal(nextState('deleted', event), null, event);
});

test('stop and delete are accepted in every state but deleted', () => {
  for (const state of states.filter((one) => one !== 'deleted')) {
    assert.notEqual(nextState(state, 'stop'), null, `stop in ${state}`);
    assert.equal(nextState(state, 'delete'), 'deleting', `delete in ${state}`);
  }
});

test('every state leads to a settled one, and to deleted', () => {
  for (const state of states) {
    const reached = reachable(state);
    assert.ok([...reached].some(isSettled), `${state} settles`);
    assert.ok(reached.has('deleted'), `${state} can be deleted`);
  }
});

test('deleting ends in deleted only, whatever happens', () => {
  assert.deepEqual([...reachable('deleting')].sort(), ['deleted', 'deleting']);
});

test('whatever the events, a state is left only by an event that the table has', () => {
  fc.assert(
    fc.property(anyState, anyEvents, (from, events) => {
      let state: State = from;
      for (const event of events) {
        const next = nextState(state, event);
        if (next === null) continue;
        assert.ok(states.includes(next));
        if (state === 'deleted') assert.fail('something left deleted');
        state = next;
      }
    }),
    { seed: 1 },
  );
});

test('a run is only ever placed for what waits, and only a placed one gets ready', () => {
  for (const state of states) {
    assert.equal(nextState(state, 'place') !== null, ['pending', 'queued'].includes(state), state);
    assert.equal(nextState(state, 'ready') !== null, state === 'provisioning', state);
  }
});

test('a start while stopping waits for the proof that the run is gone', () => {
  assert.equal(nextState('stopping', 'start'), 'stopping');
  assert.equal(nextState('stopping', 'place'), null);
  assert.equal(nextState('stopping', 'parked'), 'stopped');
});

test('only running is metered', () => {
  assert.deepEqual(states.filter(isMetered), ['running']);
});

function reachable(from: State): Set<State> {
  const seen = new Set<State>([from]);
  for (const state of seen) {
    for (const event of stateEvents) {
      const next = nextState(state, event);
      if (next !== null) seen.add(next);
    }
  }
  return seen;
}
