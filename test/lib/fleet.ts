/**
 * A fleet of made-up machines in this process: the whole control plane of the rig, and for each
 * machine the program's own agent over the driver sim, all on one clock that only moves when told.
 *
 * Invariants: no sleeps, no network; the same machines and questions give the same story; `close`
 * leaves nothing open.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Transport } from '../../src/agent/agent.ts';
import type { GuardParts } from '../../src/agent/guard/guard.ts';
import { createRunBackend } from '../../src/agent/run-backend.ts';
import { type SimAgent, startSimAgent } from '../../src/agent/sim-agent.ts';
import type { Role } from '../../src/contract/auth.ts';
import { type SimMachineText, simMachineSchema } from '../../src/contract/sim-machines.ts';
import type { Workload } from '../../src/contract/workloads.ts';
import { createFairUses } from '../../src/controlplane/fair-uses.ts';
import { addSimMachines, type PlacedSim } from '../../src/controlplane/sim-machines.ts';
import { type Answer, addUser, ask, createRig, type Rig, select } from './rig.ts';

export type Person = { tenant_id: string; user_id: string; token: string };

export type FleetMachine = SimAgent & {
  /** What it says of itself; a change is told at its next look (`fleet.look`). */
  readonly machine: SimAgent['machine'];
  /** Nothing of it reaches the control plane, or again. */
  cut(): void;
  heal(): void;
  /** Its agent ends, what runs goes on; or begins again. */
  stopAgent(): Promise<void>;
  startAgent(): void;
};

export type Fleet = {
  rig: Rig;
  machines: ReadonlyMap<string, FleetMachine>;
  /** The machine of that name. */
  machine(name: string): FleetMachine;
  /** The member of a tenant of that slug; made at the first call, as is the tenant. */
  person(slug: string, role?: Role): Promise<Person>;
  /** Asks the API as the member of a tenant; as the operator for `op`. */
  ask(slug: string, method: string, path: string, body?: unknown): Promise<Answer>;
  /** Launches, and throws where that is refused. Fields are those of POST /v1/workloads. */
  launch(slug: string, body: Record<string, unknown>): Promise<Workload>;
  /** A workload as its tenant sees it now. */
  show(slug: string, id: string): Promise<Workload>;
  /** Lets time pass until it is so; throws after two hours of it. */
  until(isSo: () => boolean | Promise<boolean>, what: string): Promise<void>;
  /** Until the workload is in that state. */
  untilState(slug: string, id: string, state: Workload['state']): Promise<Workload>;
  /** Has every machine look at itself anew. */
  look(): Promise<void>;
  advance(ms: number): Promise<void>;
  close(): Promise<void>;
};

const operators = 'op';
const step_ms = 250;
const until_ms = 2 * 3_600_000;

export async function createFleet(
  texts: readonly SimMachineText[],
  /** `whole`: use, reclaims and fair share are as in the program, too. */
  options: { whole?: boolean; dev?: boolean; guard?: (name: string) => GuardParts } = {},
): Promise<Fleet> {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-fleet-'));
  const machines = new Map<string, FleetMachine>();
  const byId = new Map<string, FleetMachine>();
  const backend = createRunBackend((machine_id) => byId.get(machine_id)?.driver);
  const rig = await createRig({ backend, dev: options.dev !== false });
  const { store, clock, random, ids } = rig;
  // The rig's own machine has no agent, and would be one more to wait for.
  const mine = { text: 'delete from machines where id = $1', params: [ids.machine_id] };
  await store.transact('write', mine);
  const [operator] = await select<{ slug: string }>(store, 'select slug from tenants');
  const people = new Map<string, Person>();
  people.set(operators, { ...ids, token: rig.token });
  const placed = await addSimMachines(
    { store, clock, random, data_dir: folder, owner: operator?.slug ?? '' },
    texts.map((text) => simMachineSchema.parse(text)),
  );
  if (options.whole) {
    await rig.startUse();
    rig.startReclaims();
  }
  const controller = rig.startController(
    options.whole ? createFairUses({ ...rig.apiDeps, log: rig.log }) : undefined,
  );
  for (const one of placed) {
    const machine = startMachine(rig, one, options.guard?.(one.machine.name));
    machines.set(one.machine.name, machine);
    byId.set(one.machine_id, machine);
  }
  await Promise.all([...machines.values()].map(({ agent }) => agent.known));
  controller.wake();

  const asking = askingOf(rig, people);
  return {
    ...{ rig, machines, ...asking, ...waitingOf(rig, byId, asking.show) },
    machine: (name) => found(machines.get(name), `machine ${name}`),
    async close() {
      await Promise.all([...machines.values()].map((machine) => machine.stopAgent()));
      await rig.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

type Asking = Pick<Fleet, 'person' | 'ask' | 'launch' | 'show'>;

function askingOf(rig: Rig, people: Map<string, Person>): Asking {
  const { store, random } = rig;
  const person: Fleet['person'] = async (slug, role = 'member') => {
    const known = people.get(slug);
    if (known !== undefined) return known;
    const tenant_id = await tenantOf(rig, slug);
    const user = { tenant_id, name: `of-${slug}`, role };
    const { user_id, token } = await addUser(store, random, user);
    const made = { tenant_id, user_id, token };
    people.set(slug, made);
    return made;
  };
  const asked: Fleet['ask'] = async (slug, method, path, body) => {
    const { token } = await person(slug);
    return ask(rig, method, path, { token, ...(body === undefined ? {} : { body }) });
  };
  return {
    ...{ person, ask: asked },
    async launch(slug, body) {
      const answer = await asked(slug, 'POST', '/v1/workloads', body);
      if (answer.status >= 300) throw told(rig, `launch: ${answer.status} ${answer.text}`);
      return answer.body as unknown as Workload;
    },
    async show(slug, id) {
      const answer = await asked(slug, 'GET', `/v1/workloads/${id}`);
      if (answer.status !== 200) throw told(rig, `show: ${answer.status} ${answer.text}`);
      return answer.body as unknown as Workload;
    },
  };
}

function waitingOf(
  rig: Rig,
  byId: ReadonlyMap<string, FleetMachine>,
  show: Fleet['show'],
): Pick<Fleet, 'until' | 'untilState' | 'look' | 'advance'> {
  const { clock } = rig;
  const until: Fleet['until'] = async (isSo, what) => {
    for (let waited = 0; waited < until_ms; waited += step_ms) {
      if (await isSo()) return;
      await clock.advance(step_ms);
    }
    throw told(rig, `it never came: ${what}`);
  };
  return {
    until,
    async untilState(slug, id, state) {
      await until(async () => (await show(slug, id)).state === state, `${id} ${state}`);
      return show(slug, id);
    },
    async look() {
      const done = Promise.all([...byId.keys()].map((id) => rig.sync.lookAnew(id)));
      await clock.advance(step_ms);
      await done;
    },
    advance: (ms) => clock.advance(ms),
  };
}

function startMachine(
  rig: Rig,
  { machine, machine_id, folder }: PlacedSim,
  guard?: GuardParts,
): FleetMachine {
  const { clock, random, log } = rig;
  let link = new AbortController();
  const over = async <Reply>(question: (end: AbortSignal) => Promise<Reply>): Promise<Reply> => {
    const { signal } = link;
    const reply = signal.aborted ? null : await question(signal);
    // What was on its way when the link was cut is lost with it.
    if (reply === null || signal.aborted) throw new Error('the link is cut');
    return reply;
  };
  const transport: Transport = {
    hello: (words) => over(() => rig.sync.hello(machine_id, words, true)),
    sync: (report, signal) =>
      over((end) => rig.sync.sync(machine_id, report, AbortSignal.any([signal, end]))),
  };
  const parts = { machine, machine_id, folder, transport, clock, random, log };
  const start = () => startSimAgent({ ...parts, ...(guard === undefined ? {} : { guard }) });
  const first = start();
  const one: FleetMachine = {
    ...first,
    cut: () => link.abort('the link is cut'),
    heal() {
      link = new AbortController();
    },
    stopAgent: () => one.agent.stop(),
    startAgent: () => void Object.assign(one, start()),
  };
  return one;
}

async function tenantOf(rig: Rig, slug: string): Promise<string> {
  const text = 'select id from tenants where slug = $1';
  const [known] = await select<{ id: string }>(rig.store, text, [slug]);
  if (known !== undefined) return known.id;
  const answer = await ask(rig, 'POST', '/v1/tenants', { body: { slug } });
  if (answer.status !== 201) throw new Error(`tenant ${slug}: ${answer.status} ${answer.text}`);
  return answer.body.id as string;
}

/** With what was logged last, which says more of a defect than an answer does. */
function told({ lines }: Rig, problem: string): Error {
  return new Error([problem, ...lines.slice(-3).map((line) => JSON.stringify(line))].join('\n'));
}

function found<T>(value: T | undefined, what: string): T {
  if (value === undefined) throw new Error(`there is no ${what}`);
  return value;
}
