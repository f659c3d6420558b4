/**
 * What the owner's people do about a machine: `einsora machine share`, `give`, `drain`, `undrain`,
 * `rename`, `limits`, `fence`, `rm`.
 *
 * Invariants: nothing is asked of a machine that is not one's own but to share it less; that a
 * machine is off is said twice: by an option and by its name.
 */
import type { MachineChanged, SharingChange } from '../contract/machine-changes.ts';
import type { Machine } from '../contract/machines.ts';
import { askLine } from './ask-secret.ts';
import { reasonError, usageError } from './cli-error.ts';
import { type Client, openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { pick } from './machine.ts';
import { capsText, sharedText } from './machine-standing.ts';
import { oneLine, printData, printJson, say } from './output.ts';

type Json = { json?: boolean };

export type ShareOptions = Json & {
  private?: boolean;
  inviteOnly?: boolean;
  community?: boolean;
  invite?: string[];
  uninvite?: string[];
  to?: string[];
};

export async function shareMachine(
  context: Context,
  name: string | undefined,
  options: ShareOptions,
): Promise<number> {
  const body = sharingOf(options);
  const client = openClient(context);
  const found = await meant(context, client, name);
  const asked = found?.id ?? name ?? '';
  const path = `/v1/machines/${encodeURIComponent(asked)}/sharing`;
  const done = await client.call<MachineChanged>('PUT', path, { body });
  return tell(context, done, options, (machine) => {
    const text = machine === null ? 'not shared with you' : sharedText(machine);
    return `${oneLine(machine?.name ?? found?.name ?? asked)} is ${text} now.`;
  });
}

function sharingOf(options: ShareOptions): SharingChange {
  const named = [
    ...(options.private ? (['private'] as const) : []),
    ...(options.inviteOnly ? (['invite-only'] as const) : []),
    ...(options.community ? (['community'] as const) : []),
  ];
  const [sharing, ...others] = named;
  if (others.length > 0) throw usageError(`${named.join(' and ')} exclude each other.`);
  const invite = [...(options.invite ?? []), ...(options.to ?? [])];
  const uninvite = options.uninvite ?? [];
  if (sharing === 'private' && invite.length > 0) {
    throw usageError('A private machine has no guests: leave --private or --invite out.');
  }
  if (sharing === undefined && invite.length + uninvite.length === 0) {
    const fix = 'bin/einsora machine share <machine> --invite <tenant>';
    throw usageError('It is not said with whom to share it.', fix);
  }
  return {
    ...(sharing === undefined ? {} : { sharing }),
    ...(invite.length === 0 ? {} : { invite }),
    ...(uninvite.length === 0 ? {} : { uninvite }),
  };
}

export async function giveMachine(
  context: Context,
  name: string | undefined,
  options: Json & { to: string },
): Promise<number> {
  const { client, machine, path } = await own(context, name);
  const body = { to: options.to };
  const done = await client.call<MachineChanged>('POST', `${path}/give`, { body });
  const name_shown = oneLine(machine.name);
  const text = [
    `${name_shown} belongs to ${oneLine(options.to)} now, shared with nobody. It takes nothing`,
    `new until one of their admins says: bin/einsora machine undrain ${name_shown}`,
  ].join(' ');
  return tell(context, done, options, () => text);
}

export async function drainMachine(
  context: Context,
  name: string | undefined,
  options: Json & { stop?: boolean },
): Promise<number> {
  const { client, path } = await own(context, name);
  const body = options.stop === true ? { stop: true } : {};
  const done = await client.call<MachineChanged>('POST', `${path}/drain`, { body });
  return tell(context, done, options, (machine) => {
    const stays = options.stop === true ? '' : ' What runs there stays.';
    return `${oneLine(machine?.name ?? '')} takes nothing new.${stays}`;
  });
}

export async function undrainMachine(
  context: Context,
  name: string | undefined,
  options: Json,
): Promise<number> {
  const { client, path } = await own(context, name);
  const done = await client.call<MachineChanged>('POST', `${path}/undrain`);
  return tell(
    context,
    done,
    options,
    (machine) => `${oneLine(machine?.name ?? '')} is in use again.`,
  );
}

export async function renameMachine(
  context: Context,
  machine: string,
  name: string,
  options: Json,
): Promise<number> {
  const { client, path } = await own(context, machine);
  const done = await client.call<MachineChanged>('PUT', `${path}/name`, { body: { name } });
  return tell(context, done, options, () => `It is called ${oneLine(name)} now.`);
}

type Limit = number | 'none';
export type LimitsOptions = Json & { cpu?: Limit; memory?: Limit; disk?: Limit };

export async function limitMachine(
  context: Context,
  name: string | undefined,
  options: LimitsOptions,
): Promise<number> {
  const { cpu, memory, disk } = options;
  const given: [string, Limit | undefined, number][] = [
    ['cpu_millis', cpu, 1000],
    ['memory_bytes', memory, 1],
    ['disk_bytes', disk, 1],
  ];
  const body = Object.fromEntries(
    given.flatMap(([part, limit, times]) =>
      limit === undefined ? [] : [[part, limit === 'none' ? null : Math.round(limit * times)]],
    ),
  );
  if (Object.keys(body).length === 0) {
    const fix = 'bin/einsora machine limits <machine> --cpu 8 --memory 32GiB';
    throw usageError('No limit is given.', fix);
  }
  const { client, path } = await own(context, name);
  const done = await client.call<MachineChanged>('PUT', `${path}/limits`, { body });
  return tell(context, done, options, (machine) => {
    const caps = machine === null ? null : capsText(machine);
    return `${oneLine(machine?.name ?? '')} offers ${caps === null ? 'what it has' : `at most ${caps}`}.`;
  });
}

export type FenceOptions = Json & { poweredOff?: boolean; confirm?: string };

export async function fenceMachine(
  context: Context,
  name: string | undefined,
  options: FenceOptions,
): Promise<number> {
  if (options.poweredOff !== true) {
    const message =
      'Whatever runs on a fenced machine counts as over, and is begun elsewhere: where it runs on, it runs twice. So say that it is powered off.';
    throw usageError(message, 'bin/einsora machine fence <machine> --powered-off');
  }
  const { client, machine, path } = await own(context, name);
  const confirm = options.confirm ?? (await confirmed(context, machine));
  const body = { powered_off: true, confirm };
  const done = await client.call<MachineChanged>('POST', `${path}/fence`, { body });
  const text = `By your word ${oneLine(machine.name)} is off; that stands on record.`;
  return tell(context, done, options, () => text, ['counts as over', 'count as over']);
}

/** The machine's name, typed once more. */
async function confirmed(context: Context, machine: Machine): Promise<string> {
  const name = oneLine(machine.name);
  const question = `${name} is powered off, and nothing of it runs any more? Type its name: `;
  const answer = await askLine(context, question);
  if (answer !== null) return answer;
  const fix = `bin/einsora machine fence ${name} --powered-off --confirm ${name}`;
  throw usageError('There is no terminal to ask on: say its name once more.', fix);
}

export async function removeMachine(
  context: Context,
  name: string,
  options: Json & { forgetHomes?: boolean },
): Promise<number> {
  const { client, machine, path } = await own(context, name);
  const query = options.forgetHomes === true ? '?forget_homes=true' : '';
  const done = await client.call<MachineChanged>('DELETE', `${path}${query}`);
  return tell(context, done, options, () => {
    const lost = done.forgotten === 0 ? '' : ` ${count(done.forgotten)} lost what it kept there.`;
    return `${oneLine(machine.name)} is removed; what is on its disk stays there.${lost}`;
  });
}

/** The machine that is meant, where it is among those that can be seen. */
async function meant(
  context: Context,
  client: Client,
  name: string | undefined,
): Promise<Machine | null> {
  const machines = await client.machines();
  const is_listed = machines.some((one) => one.id === name || one.name === name);
  return name !== undefined && !is_listed ? null : pick(context, machines, name);
}

/** One's own machine: another's is told apart from one that is not there. */
export async function own(context: Context, name: string | undefined) {
  const client = openClient(context);
  const machines = await client.machines();
  const is_own = machines.filter((one) => one.is_yours);
  const is_there = is_own.some((one) => one.id === name || one.name === name);
  const machine = pick(context, name === undefined || is_there ? is_own : machines, name);
  if (!machine.is_yours) {
    const details = { machine: oneLine(machine.name), owner: oneLine(machine.owner) };
    throw reasonError('machine_not_yours', details, 'refused');
  }
  return { client, machine, path: `/v1/machines/${encodeURIComponent(machine.id)}` };
}

function tell(
  context: Context,
  done: MachineChanged,
  { json }: Json,
  sentence: (machine: Machine | null) => string,
  what: [string, string] = ['is being stopped', 'are being stopped'],
): number {
  if (json) {
    printJson(context, done);
    return exitCode('ok');
  }
  printData(context, sentence(done.machine));
  if (done.stopped > 0) say(context, `${count(done.stopped)} ${what[done.stopped === 1 ? 0 : 1]}.`);
  return exitCode('ok');
}

const count = (number: number) => `${number} ${number === 1 ? 'workload' : 'workloads'}`;
