/**
 * What a machine's guard does to a run: on its timeline, and off its meter.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { beginTale, type Tale } from '../../test/lib/ledger-tale.ts';
import { openTestStore, select, storeKinds } from '../../test/lib/rig.ts';

const minute = 60_000;
const paused = { guarded: { step: 'paused' as const, why: 'on_battery' as const } };
const lowered = { guarded: { step: 'lowered' as const, why: 'owner_active' as const } };

for (const kind of storeKinds) {
  describe(`what a guard does, in a store in ${kind}`, () => {
    const inTale = (name: string, body: (tale: Tale) => Promise<void>) =>
      test(name, async () => {
        const { store, close } = await openTestStore(kind);
        try {
          const tale = await beginTale(store);
          await tale.launch();
          await tale.place();
          await tale.report('ready');
          await body(tale);
        } finally {
          await close();
        }
      });

    inTale('each step is told once, with its reason, and the state stays', async (tale) => {
      await tale.report('ready', lowered);
      await tale.report('ready', lowered);
      await tale.report('ready', paused);
      await tale.pass(minute);
      await tale.report('ready', { ...paused, paused_ms: 1000 });
      await tale.report('ready', { paused_ms: minute });
      await tale.report('ready', { ...lowered, paused_ms: minute });
      await tale.report('ready', { paused_ms: minute });
      assert.deepEqual(await notes(tale), [
        ['run_lowered', { why: 'desk is in use by its owner' }],
        ['run_paused', { why: 'desk runs on its battery' }],
        ['run_resumed', { paused: '59.0 s' }],
        ['run_lowered', { why: 'desk is in use by its owner' }],
        ['run_raised', {}],
      ]);
      assert.equal((await tale.workload()).state, 'running');
    });

    inTale(
      'while it stood still is taken off what is metered, and off nothing else',
      async (tale) => {
        await tale.pass(10 * minute);
        await tale.report('ready', paused);
        await tale.pass(3 * minute);
        await tale.report('ready', { paused_ms: 3 * minute });
        await tale.report('ready', { paused_ms: 3 * minute });
        await tale.pass(2 * minute);
        await tale.prove();
        await tale.stop();
        await tale.report('parked', { paused_ms: 3 * minute });
        assert.deepEqual(await signed(tale), [15 * minute, -3 * minute]);
        const held = await tale.intervals('held');
        assert.deepEqual(
          held.map((row) => row.sign),
          [1],
        );
      },
    );

    inTale('an agent that began anew counts from nothing, and is believed', async (tale) => {
      await tale.pass(10 * minute);
      await tale.report('ready', { paused_ms: 5 * minute });
      await tale.report('ready', { paused_ms: 2 * minute });
      await tale.report('ready', { paused_ms: 2 * minute });
      await tale.stop();
      await tale.report('parked', { paused_ms: 2 * minute });
      const [, ...taken] = await signed(tale);
      assert.deepEqual(taken, [-5 * minute, -2 * minute]);
    });

    inTale('no more is taken off than was metered', async (tale) => {
      await tale.pass(minute);
      await tale.report('ready', { paused_ms: 60 * minute });
      await tale.stop();
      await tale.report('parked', { paused_ms: 60 * minute });
      assert.deepEqual(await signed(tale), [minute, -minute]);
    });

    inTale(
      "what the owner of the machine needs back is no attempt, and nobody's failure",
      async (tale) => {
        const before = await tale.workload();
        await tale.report('parked', { reason: 'owner_paused' });
        const after = await tale.workload();
        assert.deepEqual(
          [after.state, after.code, after.attempts, after.intent],
          ['pending', 'owner_paused', before.attempts, 'running'],
        );
        assert.equal(JSON.parse(after.details).machine, 'desk');
      },
    );
  });
}

async function notes(tale: Tale): Promise<[string, Record<string, unknown>][]> {
  const text = `select code, details from workload_events where kind = 'note' order by number`;
  const rows = await select<{ code: string; details: string }>(tale.store, text);
  return rows.map((row) => [row.code, JSON.parse(row.details)]);
}

async function signed(tale: Tale): Promise<number[]> {
  const rows = await tale.intervals('metered');
  return rows.map((row) => row.sign * ((row.ended_at ?? 0) - row.started_at));
}
