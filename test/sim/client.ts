/**
 * The users of a story: they ask, wait, and ask again with the same key when no answer came.
 *
 * Invariants: an answer that came is held against the store from then on; the same key never gets
 * two answers; an endpoint is asked for as the API would ask the store.
 */
import { makeId } from '../../src/core/ids.ts';
import { type AskedMachine, no_extras, type WorkloadSpec } from '../../src/core/workload.ts';
import type { LaunchArgs } from '../../src/store/workloads.ts';
import { gib, sizes } from './amounts.ts';
import type { Chance } from './chance.ts';
import type { ControlPlane } from './control-plane.ts';
import { specThatFalls } from './fallbacks.ts';
import type { Link } from './link.ts';
import type { Deed } from './schedule.ts';
import type { Story } from './story.ts';

export type Tenant = { tenant_id: string; user_id: string; name: string };

/** `asked`: what was asked for with that key. */
export type Answered = { id: string; tenant: Tenant; key: string; asked: string; at: number };

export type Client = {
  /** `number` is that of the item in the schedule: its key. */
  act(deed: Deed, number: number): void;
  /** Launches that were answered, in order. */
  readonly launched: Answered[];
  /** A restored store knows nothing of what was answered since it was copied. */
  restored(copied_at: number): void;
};

type Options = {
  story: Story;
  link: Link;
  tenants: readonly Tenant[];
  controlPlane: () => ControlPlane | null;
  /** One of the machines there are, by any number. */
  machineOf: (number: number) => AskedMachine;
};
type Asked = { key: string; tenant: Tenant; spec: WorkloadSpec; named: boolean };
type Context = Options & {
  chance: Chance;
  launched: Answered[];
  asked: Asked[];
  /** What was asked of the store before one is not held against the one after. */
  restores: number;
};
/** What is wanted of a workload once the change was answered. */
const wishes = {
  stopWorkload: ['stopped', 'deleted'],
  startWorkload: ['running'],
  deleteWorkload: ['deleted'],
};
type Change = keyof typeof wishes;

const patience_ms = 10_000;
const tries = 4;

export function createClient(options: Options): Client {
  const launched: Answered[] = [];
  const chance = options.story.chance('ids');
  const context: Context = { ...options, chance, launched, asked: [], restores: 0 };
  return {
    launched,
    act: (deed, number) => act(context, deed, number),
    restored(copied_at) {
      context.restores += 1;
      const kept = launched.filter((one) => one.at < copied_at);
      launched.splice(0, launched.length, ...kept);
    },
  };
}

function act(context: Context, deed: Deed, number: number): void {
  const { tenants, asked } = context;
  if (deed.does === 'launch') {
    const tenant = tenants[deed.tenant % tenants.length];
    if (tenant === undefined) return;
    const amounts = specOf(deed.size, deed.name ?? 'chat', deed.replicas ?? 1);
    const is_one = deed.falls === undefined && (deed.replicas ?? 1) === 1;
    const by_number = { ...gpusFor(number), ...(is_one ? placeFor(number) : {}) };
    const whole = { ...amounts, ...(deed.rooted ? notebook : by_number) };
    const spec = specThatFalls(whole, deed.falls, context.machineOf);
    const what = { key: `key-${number}`, tenant, spec, named: deed.name !== null };
    asked.push(what);
    for (let again = 0; again <= deed.repeats; again += 1) launch(context, what);
  } else if (deed.does === 'again') {
    const what = asked[deed.nth % Math.max(1, asked.length)];
    if (what === undefined) return;
    launch(context, deed.other ? { ...what, spec: { ...what.spec, cpu_millis: 500 } } : what);
  } else if (deed.does === 'scale') {
    scale(context, deed.nth, deed.to);
  } else {
    for (let again = 0; again <= deed.repeats; again += 1) {
      change(context, `${deed.does}Workload` as const, deed.nth);
    }
  }
}

function launch(context: Context, what: Asked): void {
  const { key, tenant, spec, named } = what;
  const ask = async ({ store, clock }: ControlPlane) => {
    const now = clock.now();
    const args: LaunchArgs = {
      id: newId(context.chance, now),
      ...{ tenant_id: tenant.tenant_id, creator_id: tenant.user_id, spec },
      ...{ name_is_free: !named, actor: `user:${tenant.name}`, request_id: key, now },
      idempotency: { principal: tenant.user_id, key, request_hash: JSON.stringify(spec) },
    };
    const done = await store.transact('launchWorkload', args);
    if (done.outcome !== 'done') return done.outcome;
    return done.result.ok ? `id ${done.result.row.id}` : done.result.code;
  };
  const { restores } = context;
  send(context, ask, (answer) => {
    if (restores !== context.restores) return;
    context.story.tell('user', `${key} -> ${answer}`);
    if (answer.startsWith('id ')) accept(context, what, answer.slice(3));
  });
}

function accept({ story, launched }: Context, { key, tenant, spec }: Asked, id: string): void {
  const before = launched.find((one) => one.key === key);
  const asked = JSON.stringify(spec);
  if (before === undefined) launched.push({ key, tenant, id, asked, at: story.time.now() });
  else if (before.id !== id) story.violate('I-23', `${key} gave ${before.id} and then ${id}`);
  else if (before.asked !== asked) story.violate('I-23', `${key} gave ${id} for another request`);
}

function change(context: Context, name: Change, nth: number): void {
  const { story, launched } = context;
  const which = launched[nth % Math.max(1, launched.length)];
  if (which === undefined) return;
  const { id, tenant } = which;
  const ask = async ({ store, clock }: ControlPlane) => {
    const done = await store.transact(name, {
      ...{ tenant_id: tenant.tenant_id, workload: id },
      ...{ now: clock.now(), mono: clock.monotonic() },
      ...{ actor: `user:${tenant.name}`, request_id: 'change', idempotency: null },
    });
    if (done.outcome !== 'done') return done.outcome;
    if (!done.result.ok) return done.result.code;
    const { state, intent } = done.result.row;
    if (!wishes[name].includes(intent)) story.violate('I-04', `${name} ${id} is lost: ${intent}`);
    return state;
  };
  send(context, ask, (answer) => story.tell('user', `${name} ${id} -> ${answer}`));
}

function scale(context: Context, nth: number, replicas: number): void {
  const { story, launched } = context;
  const which = launched[nth % Math.max(1, launched.length)];
  if (which === undefined) return;
  const { id, tenant } = which;
  const ask = async ({ store, clock }: ControlPlane) => {
    const done = await store.transact('scaleEndpoint', {
      ...{ tenant_id: tenant.tenant_id, workload: id, replicas },
      ...{ now: clock.now(), mono: clock.monotonic() },
      ...{ actor: `user:${tenant.name}`, request_id: 'scale', idempotency: null },
    });
    if (done.outcome !== 'done') return done.outcome;
    return done.result.ok ? `${done.result.row.replicas} replicas` : done.result.code;
  };
  send(context, ask, (answer) => story.tell('user', `scale ${id} to ${replicas} -> ${answer}`));
}

/** Sends it until an answer comes or patience ends. */
function send(
  { story, link, controlPlane }: Context,
  ask: (there: ControlPlane) => Promise<string>,
  tell: (answer: string) => void,
): void {
  const { time } = story;
  let is_answered = false;
  const answer = (text: string) =>
    link.send('down', () => {
      is_answered = true;
      tell(text);
    });
  const attempt = (left: number) => {
    if (is_answered || left === 0) return;
    link.send('up', () => {
      const there = controlPlane();
      if (there === null) return;
      const answered = (text: string) => {
        there.wake();
        answer(text);
      };
      ask(there).then(answered, () => {});
    });
    time.at(time.now() + patience_ms, () => attempt(left - 1));
  };
  attempt(tries);
}

function newId(chance: Chance, now: number): string {
  return makeId(
    now,
    Uint8Array.from({ length: 10 }, () => chance.between(0, 255)),
  );
}

/** Some ask for a GPU, and half of those share it with others of their creator. */
function gpusFor(number: number): Partial<WorkloadSpec> {
  if (number % 5 > 1) return {};
  return { accelerator: 'nvidia', gpu_count: 1, share_device: number % 5 === 1 };
}

const notebook = { kind: 'notebook', image_id: 'jupyter', model: null, disk_bytes: gib } as const;

/** Some have a disk, and so a home; some ask for the other region. */
function placeFor(number: number): Partial<WorkloadSpec> {
  return {
    ...(number % 3 === 0 ? notebook : {}),
    ...(number % 7 === 5 ? { region: 'attic' } : {}),
  };
}

function specOf(size: number, name: string, replicas: number): WorkloadSpec {
  const amounts = sizes[size % sizes.length] ?? sizes[0];
  return {
    ...{ kind: 'endpoint', name, region: 'local', accelerator: null, gpu_class: null },
    ...{ gpu_count: 0, ...amounts, disk_bytes: 0, model: 'smollm2-135m', model_params: {} },
    ...{ ...no_extras, replicas },
  };
}
