/**
 * Commands for a store and for a model of it: the same rules once more, in plain objects, without
 * SQL, revisions or events. Where the two differ, one of them is wrong.
 *
 * Invariants: a command holds only numbers, so the same list means the same on every store; ids and
 * times come from the story's seed; nothing of the store's own rules is used here.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { makeId } from '../../src/core/ids.ts';
import type { IdempotencyKey } from '../../src/store/idempotency.ts';
import { endpointSpec, type RigStore, select } from './rig.ts';
import { reportRun, runsOf, type Story, take, workloadsOf } from './store-model.ts';

type ModelRun = { epoch: number; observed: string; ready: boolean; ended: boolean; gone: boolean };
type ModelWorkload = {
  name: string;
  state: string;
  intent: string;
  attempts: number;
  runs: ModelRun[];
  keys: number;
};
export type Model = { workloads: ModelWorkload[]; quota: number | null; asked: number };
/** The story's store may be another one after a restart. */
export type Real = { story: Story; reopen(): Promise<RigStore> };
type Command = fc.AsyncCommand<Model, Real>;

const rooms = 3;
const claims = ({ state }: ModelWorkload) => !['stopped', 'failed', 'deleted'].includes(state);
const openRuns = ({ runs }: ModelWorkload) => runs.filter(({ ended }) => !ended);
const pick = <T>(list: readonly T[], which: number): T | undefined =>
  list[which % Math.max(1, list.length)];

export const newModel = (): Model => ({ workloads: [], quota: null, asked: 0 });

const often = ['preparing', 'ready', 'ready', 'unknown'] as const;
const anyLaunch = fc
  .nat(2)
  .map((repeats) => command(`launch x${repeats + 1}`, (m, r) => launch(m, r, repeats)));
const anyPlace = fc.nat(5).map((which) => command(`place ${which}`, (m, r) => place(m, r, which)));
const anyReport = fc
  .record({
    which: fc.nat(7),
    any: fc.boolean(),
    says: fc.constantFrom(...often, 'ended', 'parked', 'removed'),
    oom: fc.nat(3).map((n) => n === 0),
  })
  .map((told) => command(`report ${JSON.stringify(told)}`, (m, r) => report(m, r, told)));

export const anyCommands = fc.commands(
  [
    ...Array.from({ length: 2 }, () => anyLaunch),
    change('stop', (workload) => stop(workload)),
    change('start', (workload, model) => start(workload, model)),
    change('delete', (workload) => remove(workload)),
    fc.nat(5).map((which) => command(`key ${which}`, (m, r) => key(m, r, which))),
    fc.nat(7).map((limit) => command(`quota ${limit}`, (m, r) => limitTo(m, r, limit))),
    fc.constant(command('restart', restart)),
    // What leads on comes up more often: most stories would else end before anything runs.
    ...Array.from({ length: 4 }, () => anyReport),
    ...Array.from({ length: 4 }, () => anyPlace),
  ],
  { maxCommands: 60, size: 'max' },
);

function command(name: string, run: (model: Model, real: Real) => Promise<void>): Command {
  return {
    check: () => true,
    toString: () => name,
    async run(model, real) {
      real.story.clock.stepWall(1000);
      await run(model, real);
      await compare(model, real.story.store);
    },
  };
}

/** Once, or several times at once with one Idempotency-Key: always one workload. */
async function launch(model: Model, { story }: Real, repeats: number): Promise<void> {
  const has_room =
    model.workloads.filter(claims).length < (model.quota ?? Number.POSITIVE_INFINITY);
  model.asked += 1;
  const { store, ids, clock, random } = story;
  const idempotency: IdempotencyKey =
    repeats === 0 ? null : { principal: 'ada', key: `k${model.asked}`, request_hash: 'h' };
  const answers = await Promise.all(
    Array.from({ length: repeats + 1 }, () =>
      store.transact('launchWorkload', {
        ...{ id: makeId(clock.now(), random.bytes(10)), spec: endpointSpec(), name_is_free: true },
        ...{ tenant_id: ids.tenant_id, creator_id: ids.user_id, actor: 'user:ada' },
        ...{ request_id: 'r', now: clock.now(), idempotency },
      }),
    ),
  );
  assert.equal(new Set(answers.map((answer) => JSON.stringify(answer))).size, 1);
  const [answer] = answers;
  assert.equal(answer?.outcome === 'done' && answer.result.ok, has_room);
  if (!has_room) return;
  const taken = model.workloads.filter(({ state }) => state !== 'deleted').map(({ name }) => name);
  let number = 1;
  const name = () => (number === 1 ? 'chat' : `chat-${number}`);
  while (taken.includes(name())) number += 1;
  const fresh = { state: 'pending', intent: 'running', attempts: 0, runs: [], keys: 0 };
  model.workloads.push({ name: name(), ...fresh });
}

function change(
  what: 'stop' | 'start' | 'delete',
  apply: (workload: ModelWorkload, model: Model) => void,
): fc.Arbitrary<Command> {
  return fc.nat(5).map((which) =>
    command(`${what} ${which}`, async (model, { story }) => {
      const rows = await workloadsOf(story.store);
      const workload = pick(model.workloads, which);
      if (workload === undefined) return;
      await story.store.transact(`${what}Workload`, {
        tenant_id: story.ids.tenant_id,
        workload: pick(rows, which)?.id ?? '',
        ...{ actor: 'user:ada', request_id: 'r', now: story.clock.now(), idempotency: null },
      });
      if (workload.state !== 'deleted') apply(workload, model);
    }),
  );
}

function stop(workload: ModelWorkload): void {
  if (workload.state === 'deleting') return;
  workload.intent = 'stopped';
  if (workload.state === 'stopped' || workload.state === 'stopping') return;
  workload.state = openRuns(workload).length > 0 ? 'stopping' : 'stopped';
}

function start(workload: ModelWorkload, model: Model): void {
  if (workload.state === 'stopping') workload.intent = 'running';
  if (workload.state !== 'stopped' && workload.state !== 'failed') return;
  const used = model.workloads.filter(claims).length;
  if (used >= (model.quota ?? Number.POSITIVE_INFINITY)) return;
  Object.assign(workload, { state: 'pending', intent: 'running', attempts: 0 });
}

function remove(workload: ModelWorkload): void {
  if (workload.state === 'deleting') return;
  workload.intent = 'deleted';
  workload.keys = 0;
  workload.state = workload.runs.every(({ gone }) => gone) ? 'deleted' : 'deleting';
}

async function place(model: Model, { story }: Real, which: number): Promise<void> {
  const pending = model.workloads.findIndex(({ state }) => state === 'pending');
  const at = which > 1 && pending !== -1 ? pending : which;
  const workload = pick(model.workloads, at);
  if (workload === undefined) return;
  await take(story, { do: 'place', which: at, clock_ms: 0 });
  const waits = ['pending', 'queued'].includes(workload.state);
  const held = model.workloads.flatMap(openRuns).length;
  if (!waits || openRuns(workload).length > 0 || held >= rooms) return;
  const epoch = workload.runs.length + 1;
  workload.runs.push({ epoch, observed: 'absent', ready: false, ended: false, gone: false });
  workload.state = 'provisioning';
}

type Told = {
  which: number;
  any: boolean;
  says: 'preparing' | 'ready' | End | 'unknown';
  oom: boolean;
};
type End = 'ended' | 'parked' | 'removed';

async function report(model: Model, { story }: Real, told: Told): Promise<void> {
  const rows = await workloadsOf(story.store);
  const every = await runsOf(story.store);
  const own = every.filter((run) => run.workload_id === pick(rows, told.which)?.id);
  // Mostly the current run of some workload: any run at all is mostly an old one.
  const row = told.any ? pick(every, told.which) : own.at(-1);
  if (row === undefined) return;
  const index = rows.findIndex(({ id }) => id === row.workload_id);
  const workload = model.workloads[index];
  const run = workload?.runs.find(({ epoch }) => epoch === row.run_epoch);
  assert.ok(workload && run, 'the store has a run that the model has not');
  await reportRun(story, row, told.says, told.oom);
  if (run.gone) return;
  const current = run === workload.runs.at(-1);
  if (told.says === 'unknown') {
    if (!run.ended) run.observed = 'unknown';
  } else if (told.says === 'preparing' || told.says === 'ready') {
    if (run.ended) return;
    run.observed = 'present';
    if (told.says === 'preparing') return;
    if (!run.ready && current && workload.state === 'provisioning') workload.state = 'running';
    run.ready = true;
  } else end(workload, run, current, told);
}

function end(workload: ModelWorkload, run: ModelRun, current: boolean, told: Told): void {
  const before = run.ended;
  run.ended = true;
  if (!before || told.says === 'removed') run.observed = 'absent';
  if (told.says === 'removed') run.gone = true;
  if (!before && current) {
    if (workload.state === 'stopping') {
      const again = workload.intent === 'running';
      workload.state = again ? 'pending' : 'stopped';
      if (again) workload.attempts = 0;
    } else if (workload.state === 'provisioning' || workload.state === 'running') {
      workload.attempts += 1;
      const hopeless = told.says === 'ended' && told.oom;
      workload.state = hopeless || workload.attempts >= 3 ? 'failed' : 'pending';
    }
  }
  const all_gone = workload.runs.every(({ gone }) => gone);
  if (workload.state === 'deleting' && all_gone) workload.state = 'deleted';
}

async function key(model: Model, { story }: Real, which: number): Promise<void> {
  const workload = pick(model.workloads, which);
  if (workload === undefined) return;
  model.asked += 1;
  const id = `key-${model.asked}`;
  const row = pick(await workloadsOf(story.store), which);
  await story.store.transact('createKey', {
    ...{ id, hash: id, last_four: 'abcd', workload: row?.id ?? '', idempotency: null },
    ...{ tenant_id: story.ids.tenant_id, user_id: story.ids.user_id },
    ...{ now: story.clock.now(), expires_at: null },
  });
  if (workload.state === 'deleted') return;
  workload.keys += 1;
}

async function limitTo(model: Model, { story }: Real, limit: number): Promise<void> {
  await take(story, { do: 'quota', which: limit, clock_ms: 0 });
  model.quota = limit === 0 ? null : limit;
}

async function restart(_model: Model, real: Real): Promise<void> {
  real.story.store = await real.reopen();
}

/** What the model and the store have in common, in the order in which it was asked for. */
async function compare(model: Model, store: RigStore): Promise<void> {
  const rows = await workloadsOf(store);
  const runs = await runsOf(store);
  const keys = await select<{ workload_id: string }>(
    store,
    'select workload_id from endpoint_keys where revoked_at is null',
  );
  const found = rows.map(({ id, name, state, intent, attempts }): ModelWorkload => {
    const own = runs.filter(({ workload_id }) => workload_id === id);
    return {
      ...{ name, state, intent, attempts },
      runs: own.map((run) => ({
        epoch: run.run_epoch,
        observed: run.observed,
        ready: run.ready_at !== null,
        ended: run.ended_at !== null,
        gone: run.removed_at !== null,
      })),
      keys: keys.filter(({ workload_id }) => workload_id === id).length,
    };
  });
  assert.deepEqual(found, model.workloads);
}
