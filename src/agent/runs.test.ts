/**
 * Runs on a machine: the journal first, adoption without a restart, ends that are proven.
 */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type AgentRig, createAgentRig, desire, runOf } from '../../test/lib/agent-rig.ts';
import type { DesiredRun } from '../contract/sync.ts';
import { runName } from '../core/run.ts';
import type { JournalEntry } from './journal.ts';
import { reconcile } from './reconcile.ts';
import { createRuns, type Runs } from './runs.ts';

const run = runOf(1);

type Given = { rig: AgentRig; runs: Runs };

function given(
  name: string,
  body: (given: Given) => Promise<void>,
  options: Parameters<typeof createAgentRig>[0] = {},
): void {
  test(name, async () => {
    const rig = createAgentRig(options);
    const runs = createRuns({ ...rig.deps, changed: () => {} });
    try {
      await body({ rig, runs });
    } finally {
      await runs.leave();
      rig.close();
    }
  });
}

const apply = (runs: Runs, ...desired: DesiredRun[]) =>
  runs.carryOut(reconcile(desired, runs.facts()));
const phaseOf = (runs: Runs, of = run) =>
  runs.facts().find((local) => runName(local.run) === runName(of))?.phase;
const endOf = (runs: Runs) => runs.locals()[0]?.end;
const ready = ({ rig, runs }: Given) => rig.until(() => phaseOf(runs) === 'ready', 'ready');

/** An agent that begins anew on what is here, as after a crash of the one before. */
function restart(rig: AgentRig, boot_id = 'boot-1'): Runs {
  rig.started.length = 0;
  return createRuns({ ...rig.deps, boot_id, changed: () => {} });
}

function entryOf(more: Partial<JournalEntry> = {}): JournalEntry {
  return {
    ...{ driver: 'sim', intent: 'run', boot_id: 'boot-1', spec: desire(run).spec, end: null },
    started: false,
    ...more,
  };
}

given('a wanted run goes through its stages and answers', async (all) => {
  apply(all.runs, desire(run));
  await ready(all);
  const [local] = all.runs.locals();
  assert.deepEqual(
    local?.stages.list().map(({ name, state }) => `${name} ${state}`),
    ['sandbox', 'engine', 'model', 'validate', 'start', 'load', 'answer'].map((s) => `${s} done`),
  );
});

given(
  'the intent is in the journal before the driver starts anything',
  async (all) => {
    apply(all.runs, desire(run));
    await ready(all);
    assert.deepEqual(all.rig.started, [run]);
    assert.equal(all.rig.lines.length, 0);
  },
  {
    wrap: (driver, { journal_folder }) => ({
      ...driver,
      start: (spec, signal) => {
        assert.ok(existsSync(join(journal_folder, `${runName(spec.run)}.json`)));
        return driver.start(spec, signal);
      },
    }),
  },
);

given('what cannot be journalled is not started, and tried again later', async (all) => {
  const { rig, runs } = all;
  const { write } = rig.deps.journal;
  rig.deps.journal.write = () => {
    throw new Error('the disk is full');
  };
  apply(runs, desire(run), desire(runOf(2), 'park'));
  assert.deepEqual(rig.started, []);
  assert.equal(phaseOf(runs), undefined);
  assert.equal(phaseOf(runs, runOf(2)), 'parked', 'the other step was carried out');
  rig.deps.journal.write = write;
  apply(runs, desire(run));
  await ready(all);
});

given('a healthy run is left alone, however often it is wanted', async (all) => {
  apply(all.runs, desire(run));
  await ready(all);
  for (let round = 0; round < 5; round += 1) apply(all.runs, desire(run));
  await all.rig.clock.advance(60_000);
  assert.equal(all.rig.started.length, 1);
});

given('a run that ends by itself is said to have ended, with how', async (all) => {
  const how = { code: 3, signal: null, out_of_memory: false };
  all.rig.plan.next = { exit: { after_ms: 5000, how }, prints: 'last words' };
  apply(all.runs, desire(run));
  await all.rig.until(() => phaseOf(all.runs) === 'ended', 'ended');
  assert.deepEqual(endOf(all.runs)?.exit, how);
  assert.equal(endOf(all.runs)?.reason, 'engine_exited');
  assert.match(endOf(all.runs)?.log_tail ?? '', /last words/);
  assert.deepEqual(all.rig.deps.journal.read(run)?.end, endOf(all.runs));
  apply(all.runs, desire(run));
  assert.equal(all.rig.started.length, 1, 'a run is one attempt');
});

given('a start that is refused ends the run with the reason', async (all) => {
  all.rig.plan.next = { start_error: 'sandbox_missing' };
  apply(all.runs, desire(run));
  await all.rig.until(() => phaseOf(all.runs) === 'ended', 'ended');
  assert.deepEqual([endOf(all.runs)?.reason, endOf(all.runs)?.exit], ['sandbox_missing', null]);
});

given('an engine that never gets ready is ended when its patience is over', async (all) => {
  all.rig.plan.next = { ready_after_ms: null };
  apply(all.runs, desire(run));
  await all.rig.until(() => all.rig.started.length === 1, 'started');
  await all.rig.clock.advance(60_000);
  assert.equal(phaseOf(all.runs), 'preparing');
  for (let round = 0; round < 40 && phaseOf(all.runs) !== 'ended'; round += 1) {
    await all.rig.clock.advance(5000);
  }
  assert.equal(endOf(all.runs)?.reason, 'engine_never_ready');
  assert.deepEqual(
    (await all.rig.driver.observe()).map((one) => one.state),
    ['exited'],
  );
});

given('what cannot be ended is not said to have ended, and is tried again', async (all) => {
  all.rig.plan.next = { ready_after_ms: null, refused_stops: 3 };
  apply(all.runs, desire(run));
  await all.rig.until(() => all.rig.started.length === 1, 'started');
  const refused = () => all.rig.lines.filter((line) => /tried again/.test(line.message)).length;
  for (let round = 0; round < 400 && refused() < 2; round += 1) await all.rig.clock.advance(500);
  assert.notEqual(phaseOf(all.runs), 'ended');
  await all.rig.until(() => phaseOf(all.runs) === 'ended', 'ended');
  assert.equal(endOf(all.runs)?.reason, 'engine_never_ready', 'the first reason is kept');
});

given('a parked run is proven gone, and its end kept', async (all) => {
  apply(all.runs, desire(run));
  await ready(all);
  apply(all.runs, desire(run, 'park'));
  await all.rig.until(() => phaseOf(all.runs) === 'parked', 'parked');
  assert.equal(endOf(all.runs)?.exit?.signal, 'SIGTERM');
  assert.equal(all.rig.deps.journal.read(run)?.intent, 'park');
});

given('a removed run leaves nothing, and is forgotten when nobody asks any more', async (all) => {
  apply(all.runs, desire(run));
  await ready(all);
  apply(all.runs, desire(run, 'remove'));
  await all.rig.until(() => phaseOf(all.runs) === 'removed', 'removed');
  assert.deepEqual([await all.rig.driver.observe(), all.rig.deps.journal.list()], [[], []]);
  apply(all.runs);
  assert.deepEqual(all.runs.facts(), []);
});

given('a stop while it is brought up leaves nothing running', async (all) => {
  all.rig.plan.next = { start_ms: 10_000 };
  apply(all.runs, desire(run));
  await all.rig.until(() => all.rig.started.length === 1, 'it is starting');
  apply(all.runs, desire(run, 'remove'));
  await all.rig.until(() => phaseOf(all.runs) === 'removed', 'removed');
  await all.rig.clock.advance(60_000);
  assert.deepEqual(await all.rig.driver.observe(), []);
});

given('a stop that fails is tried again at the next pass', async (all) => {
  all.rig.plan.next = { refused_stops: 2 };
  apply(all.runs, desire(run));
  await ready(all);
  for (const _ of [1, 2, 3]) {
    assert.notEqual(phaseOf(all.runs), 'parked');
    apply(all.runs, desire(run, 'park'));
    await all.rig.until(() => all.runs.facts()[0]?.busy === 'no', 'the try is over');
  }
  assert.equal(phaseOf(all.runs), 'parked');
});

given('a run of a driver that is not here ends at once, with why', async ({ rig, runs }) => {
  apply(runs, { ...desire(run), driver: 'docker' });
  assert.deepEqual([phaseOf(runs), endOf(runs)?.reason], ['ended', 'driver_missing']);
  assert.deepEqual(rig.deps.journal.list(), []);
  apply(runs, desire(run, 'remove'));
  assert.equal(phaseOf(runs), 'removed');
});

given('after a restart, what runs is watched again and not started again', async (all) => {
  apply(all.runs, desire(run));
  await ready(all);
  await all.runs.leave();
  const next = restart(all.rig);
  await next.adopt();
  apply(next, desire(run));
  await ready({ rig: all.rig, runs: next });
  assert.deepEqual(all.rig.started, []);
  await next.leave();
});

given('after a restart, what ended meanwhile is known with its exit', async (all) => {
  const how = { code: 9, signal: null, out_of_memory: false };
  all.rig.plan.next = { exit: { after_ms: 60_000, how } };
  apply(all.runs, desire(run));
  await ready(all);
  await all.runs.leave();
  await all.rig.clock.advance(60_000);
  const next = restart(all.rig);
  await next.adopt();
  assert.deepEqual([phaseOf(next), endOf(next)?.exit, endOf(next)?.reason], ['ended', how, null]);
  await next.leave();
});

given('after a reboot, what was running is said to have been ended by it', async (all) => {
  const how = { code: null, signal: null, out_of_memory: false };
  all.rig.plan.next = { exit: { after_ms: 60_000, how } };
  apply(all.runs, desire(run));
  await ready(all);
  await all.runs.leave();
  await all.rig.clock.advance(60_000);
  const next = restart(all.rig, 'boot-2');
  await next.adopt();
  assert.deepEqual([phaseOf(next), endOf(next)?.reason], ['ended', 'machine_rebooted']);
  await next.leave();
});

given('after a restart, what never started is started once it is still wanted', async (all) => {
  all.rig.deps.journal.write(run, entryOf());
  await all.runs.adopt();
  await all.rig.clock.advance(60_000);
  assert.deepEqual(all.rig.started, [], 'nothing starts by itself');
  apply(all.runs, { ...desire(run), begun: true });
  await ready(all);
  assert.deepEqual(all.rig.started, [run]);
});

given('after a reboot, what never started is over, for its boot is', async (all) => {
  all.rig.deps.journal.write(run, entryOf({ boot_id: 'boot-0' }));
  await all.runs.adopt();
  assert.deepEqual([phaseOf(all.runs), endOf(all.runs)?.reason], ['ended', 'machine_rebooted']);
});

given('what was started and is not there any more is lost', async (all) => {
  all.rig.deps.journal.write(run, entryOf({ started: true }));
  await all.runs.adopt();
  assert.deepEqual([phaseOf(all.runs), endOf(all.runs)?.reason], ['ended', 'run_vanished']);
});

given('what was here and left no trace is lost, not begun anew', async (all) => {
  apply(all.runs, { ...desire(run), begun: true });
  await all.rig.clock.advance(60_000);
  assert.deepEqual([phaseOf(all.runs), endOf(all.runs)?.reason], ['ended', 'run_vanished']);
  assert.deepEqual(all.rig.started, []);
  apply(all.runs, desire(run, 'park'));
  assert.equal(phaseOf(all.runs), 'parked');
});

given('an end that a full disk could not keep is found again, not begun anew', async (all) => {
  const { journal } = all.rig.deps;
  journal.write(run, entryOf({ started: true }));
  const { write } = journal;
  journal.write = () => {
    throw new Error('the disk is full');
  };
  await assert.rejects(all.runs.adopt(), /the disk is full/);
  journal.write = write;
  await all.runs.adopt();
  apply(all.runs, desire(run));
  await all.rig.clock.advance(60_000);
  assert.deepEqual([phaseOf(all.runs), all.rig.started], ['ended', []]);
});

given('without its driver nobody can say that a run is gone', async (all) => {
  const facts = { begun: true, driver: 'docker' };
  apply(all.runs, { ...desire(run), ...facts });
  apply(all.runs, { ...desire(runOf(2), 'remove'), ...facts });
  apply(all.runs, { ...desire(runOf(3), 'remove'), ...facts, over: true });
  const phases = [run, runOf(2), runOf(3)].map((of) => phaseOf(all.runs, of));
  assert.deepEqual(phases, ['unknown', 'unknown', 'removed']);
});

given('the agent refuses what weak isolation may not run', async (all) => {
  apply(all.runs, { ...desire(run), trust: 'community' });
  await all.rig.clock.advance(60_000);
  assert.equal(endOf(all.runs)?.reason, 'isolation_not_allowed');
  assert.deepEqual(all.rig.started, []);
});

given('a full disk keeps no process from being stopped', async (all) => {
  apply(all.runs, desire(run));
  await ready(all);
  const { write } = all.rig.deps.journal;
  all.rig.deps.journal.write = () => {
    throw new Error('the disk is full');
  };
  apply(all.runs, desire(run, 'park'));
  await all.rig.clock.advance(60_000);
  assert.deepEqual(
    (await all.rig.driver.observe()).map((one) => one.state),
    ['exited'],
  );
  all.rig.deps.journal.write = write;
  apply(all.runs, desire(run, 'park'));
  await all.rig.until(() => phaseOf(all.runs) === 'parked', 'parked');
});

given('after a restart, an end that was recorded is told again', async (all) => {
  const end = { exit: null, reason: 'disk_full', details: { why: 'full' }, log_tail: 'x' };
  all.rig.deps.journal.write(run, entryOf({ end }));
  await all.runs.adopt();
  assert.deepEqual([phaseOf(all.runs), endOf(all.runs)], ['ended', end]);
});

given('after a restart, a stop that was on the way is finished', async (all) => {
  apply(all.runs, desire(run));
  await ready(all);
  await all.runs.leave();
  all.rig.deps.journal.write(run, entryOf({ intent: 'park' }));
  const next = restart(all.rig);
  await next.adopt();
  apply(next, desire(run, 'park'));
  await all.rig.until(() => phaseOf(next) === 'parked', 'parked');
  await next.leave();
});

given(
  'what runs here and nobody explains is removed, once the desired state is known',
  async (all) => {
    apply(all.runs, desire(run));
    await ready(all);
    await all.runs.leave();
    all.rig.deps.journal.remove(run);
    const next = restart(all.rig);
    await next.adopt();
    await all.rig.clock.advance(60_000);
    assert.equal((await all.rig.driver.observe()).length, 1, 'not before');
    apply(next);
    await all.rig.until(() => phaseOf(next) === 'removed', 'removed');
    assert.deepEqual(await all.rig.driver.observe(), []);
    await next.leave();
  },
);

given('a journalled run of a driver that is gone is unknown, not ended', async (all) => {
  all.rig.deps.journal.write(run, entryOf({ driver: 'docker' }));
  await all.runs.adopt();
  apply(all.runs, desire(run));
  await all.rig.clock.advance(10_000);
  assert.deepEqual([phaseOf(all.runs), all.rig.started], ['unknown', []]);
});

given(
  'an adoption that fails half-way is begun again without doing anything twice',
  async (all) => {
    all.rig.deps.journal.write(run, entryOf());
    all.rig.deps.journal.write(runOf(2), entryOf());
    const { list } = all.rig.deps.journal;
    let is_first = true;
    all.rig.deps.journal.list = () => {
      const entries = list();
      if (!is_first) return entries;
      is_first = false;
      return [...entries.slice(0, 1), { run: runOf(3), entry: null as unknown as JournalEntry }];
    };
    await assert.rejects(all.runs.adopt());
    await all.runs.adopt();
    apply(all.runs, desire(run), desire(runOf(2)));
    await ready(all);
    await all.rig.until(() => phaseOf(all.runs, runOf(2)) === 'ready', 'the second, too');
    assert.equal(all.rig.started.length, 2);
  },
);
