/**
 * The sealer over bad days: stores that fail before or after, half-written anchors, stops.
 */
import assert from 'node:assert/strict';
import { appendFileSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { act, anchorsOf, checkLog, nextAction } from '../../test/lib/activity-tale.ts';
import { createRig, type Rig, type RigStore, select } from '../../test/lib/rig.ts';
import { openActivityLog } from './activity.ts';

type Mode = 'fine' | 'before' | 'after';

async function given(body: (rig: Rig, fail: (mode: Mode) => void) => Promise<void>) {
  let mode: Mode = 'fine';
  const wrap = (store: RigStore): RigStore => ({
    ...store,
    transact: (name, args) => {
      const asked = name === 'sealActivity' || name === 'recordNotes' ? mode : 'fine';
      if (asked === 'before') return Promise.reject(new Error('it did not happen'));
      const done = store.transact(name, args);
      if (asked === 'fine') return done;
      return done.then(() => Promise.reject(new Error('it happened, and nobody heard')));
    },
  });
  const rig = await createRig({ wrap });
  try {
    await body(rig, (next) => {
      mode = next;
    });
  } finally {
    await rig.close();
  }
}

test('a tick that fails before or after its effect is made good by the next, once', () =>
  given(async (rig, fail) => {
    const { sealer, notes } = rig.apiDeps.activity;
    await act(rig, 3);
    notes.read(await nextAction(rig), 'workload:a');
    for (const mode of ['before', 'after', 'after', 'before', 'after'] as const) {
      fail(mode);
      await assert.rejects(sealer.tick());
    }
    fail('fine');
    await sealer.tick();
    const report = await checkLog(rig, []);
    assert.deepEqual([report.problems, report.rows], [[], 4]);
  }));

test('two ticks at once take turns', () =>
  given(async (rig) => {
    const { sealer } = rig.apiDeps.activity;
    await act(rig, 10);
    await Promise.all([sealer.tick(), sealer.tick(), sealer.tick()]);
    assert.deepEqual((await checkLog(rig, [])).seals, 1);
  }));

test('anchors are signed, private, in the log, and only for what is new', () =>
  given(async (rig) => {
    const { sealer } = rig.apiDeps.activity;
    await act(rig, 1);
    await sealer.tick();
    await sealer.anchor();
    await sealer.anchor();
    const path = join(rig.apiDeps.data_dir, 'activity-anchors.jsonl');
    assert.equal(readFileSync(path, 'utf8').trimEnd().split('\n').length, 1);
    assert.equal(statSync(path).mode & 0o777, 0o600);
    assert.equal(statSync(join(rig.apiDeps.data_dir, 'activity-key')).mode & 0o777, 0o600);
    await act(rig, 1);
    await sealer.tick();
    await sealer.anchor();
    const anchors = await anchorsOf(rig);
    assert.deepEqual(
      anchors.map(({ number, last_seq }) => [number, last_seq]),
      [
        [1, 1],
        [2, 2],
      ],
    );
    const said = rig.lines.filter((line) => line.message === 'activity anchored');
    assert.deepEqual(
      said.map((line) => line.signature),
      anchors.map((anchor) => anchor.signature),
    );
    assert.deepEqual((await checkLog(rig, anchors)).problems, []);
  }));

test('a half-written anchor is passed over, and the next one stands on a line of its own', () =>
  given(async (rig) => {
    const { sealer } = rig.apiDeps.activity;
    const path = join(rig.apiDeps.data_dir, 'activity-anchors.jsonl');
    await act(rig, 1);
    await sealer.tick();
    await sealer.anchor();
    appendFileSync(path, '{"format":"einsora.activity-anc');
    assert.equal((await anchorsOf(rig)).length, 1);
    await act(rig, 1);
    await sealer.tick();
    await sealer.anchor();
    assert.equal((await anchorsOf(rig)).length, 2);
    writeFileSync(path, `${readFileSync(path, 'utf8')}null\n7\n[]\n`);
    assert.equal((await anchorsOf(rig)).length, 2);
  }));

test('where the signing key is lost, the log says so, and the check does not take its word', () =>
  given(async (rig) => {
    const { sealer } = rig.apiDeps.activity;
    await act(rig, 1);
    await sealer.tick();
    await sealer.anchor();
    const old = await anchorsOf(rig);
    const { apiDeps, clock, random, log, lines } = rig;
    rmSync(join(apiDeps.data_dir, 'activity-key'));
    const { store, data_dir } = apiDeps;
    const parts = { store, clock, random, log, data_dir, store_uuid: 'rig' };
    apiDeps.activity = openActivityLog(parts);
    assert.ok(
      lines.some((line) => line.level === 'warn' && /another one signs/.test(line.message)),
    );
    const { problems } = await checkLog(rig, old);
    assert.deepEqual(
      problems.map((one) => one.code),
      ['anchor_forged'],
    );
  }));

test('an hour brings an anchor, a stop seals and anchors what is left', () =>
  given(async (rig) => {
    const { apiDeps, clock, random, log, lines } = rig;
    const { store, data_dir } = apiDeps;
    const parts = { store: rig.store as unknown as typeof store, clock, random, log, data_dir };
    const activity = openActivityLog({ ...parts, store_uuid: 'rig' });
    const running = activity.start();
    await act(rig, 2);
    await clock.advance(3000);
    assert.deepEqual(await select(rig.store, 'select id from activity where seq is null'), []);
    const before = (await anchorsOf(rig)).length;
    await act(rig, 2);
    await clock.advance(1800_000);
    assert.equal((await anchorsOf(rig)).length, before);
    await clock.advance(1900_000);
    assert.equal((await anchorsOf(rig)).length, before + 1);
    activity.notes.refused(await nextAction(rig), null, 'forbidden');
    activity.notes.refused(await nextAction(rig), null, 'forbidden');
    await running.stop();
    const report = await checkLog(rig, await anchorsOf(rig));
    assert.deepEqual([report.problems, report.rows], [[], 6]);
    assert.equal(lines.filter((line) => line.level === 'warn').length, 0);
  }));

test('a store that refuses is told once, not each second', () =>
  given(async (rig, fail) => {
    await act(rig, 1);
    const running = rig.apiDeps.activity.start();
    fail('before');
    await rig.clock.advance(10_000);
    const warned = () => rig.lines.filter((line) => line.level === 'warn').length;
    assert.equal(warned(), 1);
    fail('fine');
    await rig.clock.advance(2000);
    fail('before');
    await act(rig, 1).catch(() => {});
    await rig.clock.advance(2000);
    assert.equal(warned(), 1);
    fail('fine');
    await running.stop();
  }));
