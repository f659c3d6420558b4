/**
 * Notebooks and instances in an agent: brought up, ready, watched, and gone with what they kept.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type AgentRig, createAgentRig, desire, runOf } from '../../test/lib/agent-rig.ts';
import type { DesiredRun, InstanceSpec, NotebookSpec } from '../contract/sync.ts';
import { runName } from '../core/run.ts';
import { type Driver, DriverError, type RunSpec } from '../drivers/driver.ts';
import { reconcile } from './reconcile.ts';
import { createRuns, type Runs } from './runs.ts';

const run = runOf(1);
const sizes = { cpu_millis: 1000, memory_bytes: 2 ** 30, disk_bytes: 2 ** 30 };
const notebook: NotebookSpec = {
  ...{ kind: 'notebook', name: 'lab', image_id: 'jupyter', accelerator: null, command: [] },
  ...{ env: { MODE: 'quiet', TOKEN: { secret: 'mine' } }, ...sizes },
};
const instance: InstanceSpec = { ...notebook, kind: 'instance', image_id: 'debian', env: {} };
const secrets = { site_token: 'the-token', values: { mine: 'the-secret' } };
const want = (spec: DesiredRun['spec'], more: Partial<DesiredRun> = {}): DesiredRun => ({
  ...{ ...desire(run), spec, secrets },
  ...more,
});
const gone = (more: Partial<DesiredRun> = {}): DesiredRun => ({
  ...{ ...desire(run, 'remove'), erase: true },
  ...more,
});

type Given = { rig: AgentRig; runs: Runs; specs: RunSpec[]; erased: string[] };

function given(
  name: string,
  body: (given: Given) => Promise<void>,
  wrap: (driver: Driver) => Driver = (driver) => driver,
): void {
  test(name, async () => {
    const specs: RunSpec[] = [];
    const erased: string[] = [];
    const rig = createAgentRig({
      wrap: (sim) =>
        wrap({
          ...sim,
          start(spec, signal) {
            specs.push(spec);
            return sim.start(spec, signal);
          },
          async erase(workload_id) {
            await sim.erase(workload_id);
            erased.push(workload_id);
          },
        }),
    });
    const runs = createRuns({ ...rig.deps, changed: () => {} });
    try {
      await body({ rig, runs, specs, erased });
    } finally {
      await runs.leave();
      rig.close();
    }
  });
}

const apply = (runs: Runs, ...desired: DesiredRun[]) =>
  runs.carryOut(reconcile(desired, runs.facts()));
const phaseOf = (runs: Runs) =>
  runs.facts().find((local) => runName(local.run) === runName(run))?.phase;
const stagesOf = (runs: Runs) =>
  runs
    .locals()[0]
    ?.stages.list()
    .map(({ name, state }) => `${name} ${state}`);
const ready = ({ rig, runs }: Given) => rig.until(() => phaseOf(runs) === 'ready', 'ready');

given('a notebook goes through its stages, and is ready when its page answers', async (all) => {
  apply(all.runs, want(notebook));
  await ready(all);
  const names = ['sandbox', 'environment', 'start', 'ready'];
  assert.deepEqual(
    stagesOf(all.runs),
    names.map((name) => `${name} done`),
  );
  const [spec] = all.specs;
  assert.deepEqual([spec?.network, spec?.ports, spec?.image], ['host', ['web'], null]);
  assert.equal(spec?.workspace?.target, '/workspace');
});

given('token and secrets stand in the environment, and nowhere that is kept', async (all) => {
  apply(all.runs, want(notebook));
  await ready(all);
  const [spec] = all.specs;
  const { JUPYTER_TOKEN, TOKEN, MODE } = spec?.env ?? {};
  assert.deepEqual([JUPYTER_TOKEN, TOKEN, MODE], ['the-token', 'the-secret', 'quiet']);
  const { env: _, ...rest } = spec ?? {};
  const files = readdirSync(all.rig.journal_folder).map((name) =>
    readFileSync(join(all.rig.journal_folder, name), 'utf8'),
  );
  assert.equal(files.length, 1);
  for (const text of [JSON.stringify(rest), ...files, JSON.stringify(all.rig.lines)]) {
    for (const secret of ['the-token', 'the-secret', 'quiet']) assert.ok(!text.includes(secret));
  }
});

given("a user's variable never takes the place of the token", async (all) => {
  apply(all.runs, want({ ...notebook, env: { JUPYTER_TOKEN: 'mine', HOME: '/etc' } }));
  await ready(all);
  const { JUPYTER_TOKEN, HOME } = all.specs[0]?.env ?? {};
  assert.deepEqual([JUPYTER_TOKEN, HOME], ['the-token', '/workspace']);
});

given('a run whose secret is gone ends with its name, before anything starts', async (all) => {
  apply(all.runs, want(notebook, { secrets: { ...secrets, values: {} } }));
  await all.rig.until(() => phaseOf(all.runs) === 'ended', 'ended');
  const { reason, details } = all.runs.locals()[0]?.end ?? {};
  assert.deepEqual([reason, details], ['unknown_secret', { secret: 'mine' }]);
  assert.equal(all.specs.length, 0);
});

given('an instance is ready once its program ran for a second', async (all) => {
  apply(all.runs, want(instance));
  await ready(all);
  const [seen] = await all.rig.driver.observe();
  assert.ok(all.rig.clock.now() - (seen?.started_at ?? 0) >= 1000);
  const [spec] = all.specs;
  assert.deepEqual([spec?.image, spec?.network], ['docker.io/library/debian:12', 'fenced']);
  assert.deepEqual(spec?.argv, ['sleep', 'infinity']);
});

given('the program of an instance is the one that was asked for', async (all) => {
  apply(all.runs, want({ ...instance, command: ['sh', '-c', 'serve'] }));
  await ready(all);
  assert.deepEqual(all.specs[0]?.argv, ['sh', '-c', 'serve']);
});

given('an instance whose program ends at once is told apart, with its last words', async (all) => {
  const how = { code: 0, signal: null, out_of_memory: false };
  all.rig.plan.next = { exit: { after_ms: 300, how }, prints: 'nothing to do' };
  apply(all.runs, want(instance));
  await all.rig.until(() => phaseOf(all.runs) === 'ended', 'ended');
  const end = all.runs.locals()[0]?.end;
  assert.deepEqual([end?.reason, end?.exit], ['instance_exited_at_once', how]);
  assert.match(end?.log_tail ?? '', /nothing to do/);
});

given('one that ends later says only that it ended', async (all) => {
  const how = { code: 4, signal: null, out_of_memory: false };
  all.rig.plan.next = { exit: { after_ms: 5000, how } };
  apply(all.runs, want(instance));
  await all.rig.until(() => phaseOf(all.runs) === 'ended', 'ended');
  assert.equal(all.runs.locals()[0]?.end?.reason, 'instance_exited');
});

given(
  'an image that cannot be brought ends the run with the code of why',
  async (all) => {
    apply(all.runs, want(instance));
    await all.rig.until(() => phaseOf(all.runs) === 'ended', 'ended');
    const end = all.runs.locals()[0]?.end;
    assert.deepEqual([end?.reason, end?.details.image], ['image_not_found', 'debian:12']);
    assert.deepEqual(stagesOf(all.runs), ['image failed']);
  },
  (driver) => ({
    ...driver,
    bringImage: async () => {
      throw new DriverError('image_not_found', 'no', undefined, { image: 'debian:12' });
    },
  }),
);

given(
  'how far a pull has come is told, and what came of it',
  async (all) => {
    apply(all.runs, want(instance));
    await ready(all);
    const [image] = all.runs.locals()[0]?.stages.list() ?? [];
    assert.deepEqual(
      [image?.name, image?.done_bytes, image?.total_bytes, image?.note],
      ['image', 5, null, 'sha256:abc'],
    );
  },
  (driver) => ({
    ...driver,
    async bringImage(_image, onProgress) {
      onProgress(5, null);
      return 'sha256:abc';
    },
  }),
);

let is_down = false;
given(
  'an engine that does not answer for a while ends nothing',
  async (all) => {
    apply(all.runs, want(instance));
    await ready(all);
    is_down = true;
    await all.rig.clock.advance(60_000);
    is_down = false;
    await all.rig.clock.advance(5000);
    assert.equal(phaseOf(all.runs), 'ready');
  },
  (driver) => {
    const orFail = <T>(work: () => Promise<T>) =>
      is_down ? Promise.reject(new Error('connection refused')) : work();
    return {
      ...driver,
      observe: () => orFail(driver.observe),
      stats: (of) => orFail(() => driver.stats(of)),
    };
  },
);

given('what a workload keeps goes with its last run, and with no other', async (all) => {
  apply(all.runs, want(instance));
  await ready(all);
  apply(all.runs, gone({ erase: false }));
  await all.rig.until(() => phaseOf(all.runs) === 'removed', 'removed');
  assert.deepEqual(all.erased, []);
  apply(all.runs);
  apply(all.runs, gone());
  await all.rig.until(() => phaseOf(all.runs) === 'removed', 'erased');
  assert.deepEqual(all.erased, [run.workload_id]);
  apply(all.runs, gone());
  await all.rig.clock.advance(2000);
  assert.equal(all.erased.length, 1, 'once is enough');
});

let refusals = 2;
given(
  'what could not be erased is not said to be gone, and tried again',
  async (all) => {
    apply(all.runs, want(instance));
    await ready(all);
    await all.rig.until(() => {
      apply(all.runs, gone());
      return phaseOf(all.runs) === 'removed';
    }, 'removed');
    assert.equal(refusals, 0);
    assert.deepEqual(all.erased, [run.workload_id]);
  },
  (driver) => ({
    ...driver,
    async erase(workload_id) {
      if (refusals === 0) return driver.erase(workload_id);
      refusals -= 1;
      throw new DriverError('workspace_in_use', 'a run is there');
    },
  }),
);

given(
  'programs that were ended for lack of memory are counted while the run goes on',
  async (all) => {
    apply(all.runs, want(instance));
    await ready(all);
    await all.rig.until(() => all.runs.locals()[0]?.oom_kills === 2, 'counted');
    assert.equal(phaseOf(all.runs), 'ready');
  },
  (driver) => ({ ...driver, stats: async (of) => ({ ...(await driver.stats(of)), oom_kills: 2 }) }),
);

given('a notebook that was taken over is ready without its token', async (all) => {
  apply(all.runs, want(notebook));
  await ready(all);
  await all.runs.leave();
  const next = createRuns({ ...all.rig.deps, changed: () => {} });
  await next.adopt();
  await all.rig.until(() => phaseOf(next) === 'ready', 'ready again');
  assert.equal(all.rig.started.length, 1);
  await next.leave();
});
