/**
 * `einsora start`: starts stopped or failed workloads and stays until they run.
 *
 * Invariants: all are asked to start before the first is waited for; keys made earlier stay good,
 * so none is made here.
 */
import type { Workload } from '../contract/workloads.ts';
import { type AttachOutcome, attach, openInterrupt } from './attach.ts';
import { openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { eachWorkload, finishMany } from './many.ts';
import { exitOfEnd, failureOf, readTail, sayDetached, sayOutcome } from './outcome.ts';
import { say } from './output.ts';
import { printReady } from './ready.ts';

export type StartOptions = { detach?: boolean; json?: boolean; timeout?: number };

export async function start(
  context: Context,
  names: string[],
  options: StartOptions,
): Promise<number> {
  const client = openClient(context);
  const interrupt = openInterrupt(context.io);
  try {
    const asked = await eachWorkload(context, client, names, (name) => client.start(name));
    let exit = asked.exit;
    const items: Workload[] = [];
    for (const workload of asked.items) {
      if (options.detach) {
        items.push(workload);
        if (!options.json) sayDetached(context, workload);
        continue;
      }
      if (names.length > 1) say(context, `${workload.name}:`);
      const outcome = await attach(context, client, workload, {
        interrupt: interrupt.signal,
        timeout_ms: options.timeout ?? null,
      });
      items.push(outcome.workload);
      await report(outcome);
      exit ||= exitCode(exitOfEnd[outcome.ended]);
    }
    return finishMany(context, { ...asked, items, exit }, options.json === true);
  } finally {
    interrupt.close();
  }

  async function report(outcome: AttachOutcome): Promise<void> {
    const { workload, ended } = outcome;
    sayOutcome(context, outcome, ended === 'failed' ? await readTail(client, workload) : []);
    if (!options.json && failureOf(outcome) === null && ended === 'running') {
      printReady(context, workload, null);
    }
  }
}
