/**
 * Commands that take several workloads: each is done, whatever became of the others.
 *
 * Invariants: the exit code is that of the first failure; with --json one document names what was
 * done and what was not.
 */
import type { Workload } from '../contract/workloads.ts';
import { CliError, fixHere } from './cli-error.ts';
import type { Client } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { printJson, sayError } from './output.ts';
import { onWorkload } from './workload-name.ts';

export type Many = {
  items: Workload[];
  errors: ReturnType<CliError['body']>['error'][];
  exit: number;
};

/** Does `work` for each name in turn; failures are said and collected. */
export async function eachWorkload(
  context: Context,
  client: Client,
  names: string[],
  work: (name: string) => Promise<Workload>,
): Promise<Many> {
  const done: Many = { items: [], errors: [], exit: exitCode('ok') };
  for (const name of names) {
    try {
      done.items.push(await onWorkload(client, name, () => work(name)));
    } catch (error) {
      if (!(error instanceof CliError)) throw error;
      error.fix = fixHere(context.config, error.fix);
      sayError(context, error);
      done.errors.push(error.body().error);
      done.exit ||= exitCode(error.exit);
      if (error.exit === 'unreachable') break;
    }
  }
  return done;
}

/** Prints the one document where it was asked for; gives the exit code. */
export function finishMany(context: Context, done: Many, json: boolean): number {
  if (json) printJson(context, { items: done.items, errors: done.errors });
  return done.exit;
}
