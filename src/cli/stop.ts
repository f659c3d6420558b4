/**
 * `einsora stop` and `einsora rm`: ask, then wait until it is confirmed.
 *
 * Invariants: all are asked before the first is waited for; leaving or running out of time takes
 * nothing back; a machine that is not heard of is not waited for.
 */
import type { Workload } from '../contract/workloads.ts';
import { openInterrupt } from './attach.ts';
import { CliError, suggested } from './cli-error.ts';
import { type Client, openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { eachWorkload, finishMany } from './many.ts';
import { oneLine, printData, say } from './output.ts';

export type StopOptions = { detach?: boolean; json?: boolean; timeout?: number };

const poll_ms = 250;
const wait_ms = 60_000;

/** Parks: frees what it holds of machines, keeps its disks. */
export function stop(context: Context, names: string[], options: StopOptions): Promise<number> {
  return askAndWait(context, names, options, {
    ask: (client, name) => client.stop(name),
    is_done: ({ state }) => state !== 'stopping' && state !== 'running',
  });
}

/** Deletes; the history stays. */
export function rm(context: Context, names: string[], options: StopOptions): Promise<number> {
  return askAndWait(context, names, options, {
    ask: (client, name) => client.remove(name),
    is_done: ({ state }) => state === 'deleted',
    // By its id: the name may be another's from now on.
    afterwards: ({ id }) => `  its history: ${suggested(context.config, `events ${id}`)}`,
  });
}

type Change = {
  ask(client: Client, name: string): Promise<Workload>;
  is_done(workload: Workload): boolean;
  /** Said once it is done. */
  afterwards?(workload: Workload): string;
};

async function askAndWait(
  context: Context,
  names: string[],
  options: StopOptions,
  change: Change,
): Promise<number> {
  const client = openClient(context);
  const interrupt = openInterrupt(context.io);
  try {
    const done = await eachWorkload(context, client, names, (name) => change.ask(client, name));
    const deadline = context.io.clock.monotonic() + (options.timeout ?? wait_ms);
    for (const [index, workload] of done.items.entries()) {
      const last = options.detach
        ? workload
        : await waitFor(context, client, workload, change, { deadline, signal: interrupt.signal });
      done.items[index] = last;
      if (!options.json) printData(context, `${last.name} ${last.state}`);
      if (change.is_done(last) && change.afterwards) say(context, change.afterwards(last));
      if (options.detach || change.is_done(last)) continue;
      say(context, whyNotYet(context, last));
      if (last.heard_of)
        done.exit ||= exitCode(interrupt.signal.aborted ? 'interrupted' : 'failed');
    }
    return finishMany(context, done, options.json === true);
  } finally {
    interrupt.close();
  }
}

async function waitFor(
  context: Context,
  client: Client,
  first: Workload,
  change: Change,
  until: { deadline: number; signal: AbortSignal },
): Promise<Workload> {
  const { clock } = context.io;
  let last = first;
  while (!change.is_done(last) && last.heard_of && !until.signal.aborted) {
    if (clock.monotonic() >= until.deadline) break;
    await clock.sleep(poll_ms, until.signal);
    try {
      last = await client.show(last.id);
    } catch (error) {
      // Once deleted it may be gone from sight, which is what was waited for.
      if (!(error instanceof CliError) || error.exit !== 'not_found') throw error;
      return { ...last, state: 'deleted' };
    }
  }
  return last;
}

function whyNotYet(context: Context, workload: Workload): string {
  const { name, placement, heard_of } = workload;
  if (!heard_of && placement !== null) {
    return `  recorded; it happens when ${oneLine(placement.machine_name)} is back`;
  }
  return `  recorded, and on its way: ${suggested(context.config, `events ${name} -f`)}`;
}
