/**
 * The agent's loop, with a control plane that says what the test wants, and with a real one.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AgentRig, createAgentRig, desire, runOf } from '../../test/lib/agent-rig.ts';
import { settle } from '../../test/lib/fake-clock.ts';
import { ask, createRig, gib, inventoryOf, type Rig, select } from '../../test/lib/rig.ts';
import type { DesiredRun, HelloReply, Report, SyncReply } from '../contract/sync.ts';
import { seededRandom } from '../lib/random.ts';
import { createAgent, type Transport } from './agent.ts';

const inventory = inventoryOf({ cpu_millis: 2000, memory_bytes: 4 * gib });
const run = runOf(1);

/** A control plane that answers each report with the next of what it was given, then holds. */
function scripted(answers: (DesiredRun[] | SyncReply['outcome'] | Error)[]) {
  const reports: Report[] = [];
  let hellos = 0;
  let generation = 0;
  const transport: Transport = {
    async hello() {
      hellos += 1;
      return { outcome: 'greeted', store_uuid: 's', store_epoch: 1, agent_epoch: hellos };
    },
    async sync(report, signal) {
      reports.push(report);
      const answer = answers.shift();
      if (answer instanceof Error) throw answer;
      if (answer === 'stale_agent' || answer === 'hello_again') return { outcome: answer };
      if (!Array.isArray(answer)) {
        await new Promise<void>((resolve) => {
          if (signal.aborted) resolve();
          signal.addEventListener('abort', () => resolve(), { once: true });
        });
      }
      if (Array.isArray(answer)) {
        desired = answer;
        generation += 1;
      }
      const identity = { store_uuid: 's', store_epoch: 1 };
      return { outcome: 'accepted', ...identity, generation, desired };
    },
  };
  let desired: DesiredRun[] = [];
  return { transport, reports, hellos: () => hellos };
}

function given(name: string, body: (rig: AgentRig) => Promise<void>): void {
  test(name, async () => {
    const rig = createAgentRig();
    try {
      await body(rig);
    } finally {
      rig.close();
    }
  });
}

const agentOf = (rig: AgentRig, transport: Transport) =>
  createAgent({
    ...{ ...rig.deps, transport, random: seededRandom(3) },
    inventory: async () => inventory,
  });
const statesOf = (reports: Report[]) =>
  reports.flatMap((report) => report.observed.map((one) => one.state));

given(
  'it reports what it has, brings up what is wanted, and says that it is ready',
  async (rig) => {
    const { transport, reports } = scripted([[desire(run)]]);
    const agent = agentOf(rig, transport);
    await agent.known;
    await rig.until(() => statesOf(reports).includes('ready'), 'ready is reported');
    assert.deepEqual(reports[0]?.observed, []);
    assert.deepEqual([reports[0]?.seq, reports[0]?.have_generation], [1, -1]);
    const numbers = reports.map((report) => report.seq);
    assert.deepEqual(
      numbers,
      numbers.map((_, index) => index + 1),
    );
    assert.equal(reports.at(-1)?.have_generation, 1);
    await agent.stop();
  },
);

given('with nothing to say it is silent, and does not spin', async (rig) => {
  const { transport, reports } = scripted([[desire(run)]]);
  const agent = agentOf(rig, transport);
  await rig.until(() => statesOf(reports).includes('ready'), 'ready is reported');
  await rig.clock.advance(5000);
  const before = reports.length;
  await rig.clock.advance(20_000);
  assert.ok(reports.length - before <= 1, `${reports.length - before} reports of nothing`);
  await agent.stop();
});

given('a control plane that fails or forgets changes nothing here', async (rig) => {
  const lost = new Error('connection lost');
  const answers = [[desire(run)], lost, lost, 'hello_again' as const, [desire(run)]];
  const { transport, reports, hellos } = scripted(answers);
  const agent = agentOf(rig, transport);
  await rig.until(() => hellos() === 2, 'it said hello again when it was told to');
  await rig.until(() => statesOf(reports).includes('ready'), 'ready is reported');
  assert.equal(rig.started.length, 1);
  assert.equal(reports.filter((report) => report.seq === 1).length, 2);
  await agent.stop();
});

given('before a complete desired state, nothing that is here is touched', async (rig) => {
  const first = scripted([[desire(run)]]);
  const agent = agentOf(rig, first.transport);
  await rig.until(() => statesOf(first.reports).includes('ready'), 'ready');
  await agent.stop();
  const lost = Array.from({ length: 20 }, () => new Error('connection lost'));
  const second = scripted(lost);
  const next = agentOf(rig, second.transport);
  await rig.clock.advance(90_000);
  assert.ok(second.reports.length > 5);
  assert.deepEqual(
    (await rig.driver.observe()).map((one) => one.state),
    ['running'],
  );
  assert.equal(rig.started.length, 1);
  await next.stop();
});

given('an agent that was replaced stops acting, and leaves what runs', async (rig) => {
  const { transport, reports, hellos } = scripted([[desire(run)]]);
  const agent = agentOf(rig, transport);
  await rig.until(() => statesOf(reports).includes('ready'), 'ready');
  await agent.stop();
  const other = scripted(['stale_agent', [desire(run, 'remove')]]);
  const replaced = agentOf(rig, other.transport);
  await rig.clock.advance(60_000);
  assert.deepEqual([hellos(), other.hellos(), other.reports.length], [1, 1, 1]);
  assert.equal((await rig.driver.observe())[0]?.state, 'running');
  await replaced.stop();
});

given(
  'a machine that the control plane does not know asks again, and does nothing',
  async (rig) => {
    let asked = 0;
    const transport: Transport = {
      hello: async () => {
        asked += 1;
        return { outcome: 'unknown_machine' };
      },
      sync: async () => assert.fail('it was never greeted'),
    };
    const agent = agentOf(rig, transport);
    await rig.clock.advance(90_000);
    assert.ok(asked >= 5 && asked <= 12, `${asked}`);
    await agent.stop();
  },
);

given('stopping the agent leaves what runs', async (rig) => {
  const { transport, reports } = scripted([[desire(run)]]);
  const agent = agentOf(rig, transport);
  await rig.until(() => statesOf(reports).includes('ready'), 'ready');
  await agent.stop();
  const before = reports.length;
  await rig.clock.advance(60_000);
  assert.equal(reports.length, before);
  assert.equal((await rig.driver.observe())[0]?.state, 'running');
});

/** What an agent does that is greeted like this, and then told to remove everything. */
async function greetedWith(rig: AgentRig, replies: HelloReply[]): Promise<Report[]> {
  const { transport, reports } = scripted([[]]);
  transport.hello = async () => replies.shift() ?? { outcome: 'unknown_machine' };
  const agent = agentOf(rig, transport);
  await rig.clock.advance(120_000);
  await agent.stop();
  return reports;
}

given('a store that was restored is obeyed, and the one before it never again', async (rig) => {
  const store = { outcome: 'greeted' as const, store_uuid: 's', agent_epoch: 1 };
  await greetedWith(rig, [{ ...store, store_epoch: 2 }]);
  assert.equal(rig.deps.journal.identity()?.store_epoch, 2);
  const reports = await greetedWith(rig, [{ ...store, store_epoch: 1 }]);
  assert.deepEqual(reports, []);
  assert.ok(rig.lines.some(({ error }) => String(error).includes('older than one')));
  assert.equal((await greetedWith(rig, [{ ...store, store_epoch: 3 }])).length > 0, true);
});

given('another deployment is not obeyed', async (rig) => {
  const greeted = { outcome: 'greeted' as const, store_epoch: 1, agent_epoch: 1 };
  await greetedWith(rig, [{ ...greeted, store_uuid: 's' }]);
  assert.deepEqual(await greetedWith(rig, [{ ...greeted, store_uuid: 'other' }]), []);
});

given('who is behind says hello anew, knowing it', async (rig) => {
  const told: (number | undefined)[] = [];
  const { transport } = scripted([[]]);
  const { hello } = transport;
  transport.hello = async (words) => {
    told.push(words.known?.agent_epoch);
    if (told.length > 1) return hello(words);
    return { outcome: 'behind', store_uuid: 's', store_epoch: 1, agent_epoch: 7 };
  };
  const agent = agentOf(rig, transport);
  await agent.known;
  assert.deepEqual(told, [undefined, 7]);
  await agent.stop();
});

/** A control plane and an agent in one process, on one clock. */
async function together(body: (plane: Rig, rig: AgentRig) => Promise<void>): Promise<void> {
  const plane = await createRig();
  const rig = createAgentRig();
  rig.deps = { ...rig.deps, clock: plane.clock };
  try {
    await body(plane, rig);
  } finally {
    await plane.close();
    rig.close();
  }
}

test('launch, stop, start and delete go all the way through sync and back', () =>
  together(async (plane, agentRig) => {
    const { sync, ids, store, clock } = plane;
    const controller = plane.startController();
    const transport: Transport = {
      hello: (words) => sync.hello(ids.machine_id, words),
      sync: (report, signal) => sync.sync(ids.machine_id, report, signal),
    };
    const agent = agentOf(agentRig, transport);
    await agent.known;
    const state = async () => {
      const [row] = await select<{ state: string }>(store, 'select state from workloads');
      return row?.state;
    };
    const until = async (wanted: string) => {
      for (let round = 0; round < 500; round += 1) {
        if ((await state()) === wanted) return;
        await clock.advance(50);
        await agentRig.clock.advance(50);
      }
      assert.fail(`it is ${await state()}, not ${wanted}`);
    };
    const launch = { kind: 'endpoint', model: 'smollm2-135m', name: 'chat' };
    await ask(plane, 'POST', '/v1/workloads', { body: launch });
    await until('running');
    await ask(plane, 'POST', '/v1/workloads/chat/stop');
    await until('stopped');
    await ask(plane, 'POST', '/v1/workloads/chat/start');
    await until('running');
    assert.equal(agentRig.started.length, 2);
    await ask(plane, 'DELETE', '/v1/workloads/chat');
    await until('deleted');
    await settle();
    assert.deepEqual(await agentRig.driver.observe(), []);
    assert.deepEqual(agentRig.deps.journal.list(), []);
    const open = await select(store, 'select * from holds where released_at is null');
    assert.deepEqual(open, []);
    sync.close();
    await agent.stop();
    await controller.stop();
  }));

given('it learns which runs the gateway has doubts of, and that they are over', async (rig) => {
  const { transport } = scripted([[desire(run)], [desire(run)]]);
  const told = [[run], undefined];
  const heard: number[] = [];
  const agent = createAgent({
    ...{ ...rig.deps, random: seededRandom(3), inventory: async () => inventory },
    transport: {
      ...transport,
      sync: async (report, signal) => ({
        ...(await transport.sync(report, signal)),
        doubted: told.shift(),
      }),
    },
    doubts: { ...rig.doubts, learn: (runs) => void heard.push(runs.length) },
  });
  await rig.until(() => heard.length >= 2, 'two answers');
  assert.deepEqual(heard.slice(0, 2), [1, 0]);
  await agent.stop();
});
