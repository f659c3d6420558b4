/**
 * `einsora top`: what the workloads use, now; on a terminal it stays, and follows; elsewhere it
 * prints once.
 */
import type { Workload } from '../contract/workloads.ts';
import { type Client, openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { printJson, printTable, say } from './output.ts';
import { follow, staysOn } from './screen.ts';
import { first_figure, use_headings, useRow } from './use-view.ts';

export type TopOptions = { json?: boolean; once?: boolean };

export async function top(context: Context, options: TopOptions): Promise<number> {
  const client = openClient(context);
  const first = await look(client);
  if (options.json) {
    printJson(context, { items: first });
    return exitCode('ok');
  }
  const rowsOf = (all: Workload[]) => all.map((one) => useRow(one, context.io.clock.now()));
  if (staysOn(context, options.once)) {
    const screen = {
      look: () => look(client),
      title: titleOf,
      tables: (all: Workload[]) => [{ headings: use_headings, rows: rowsOf(all), first_figure }],
    };
    return follow(context, screen, first);
  }
  if (first.length === 0) say(context, 'No workloads.');
  else printTable(context, use_headings, rowsOf(first), first_figure);
  return exitCode('ok');
}

/** Those that run first, then by name: so that a row stays where it is. */
async function look(client: Client): Promise<Workload[]> {
  const rank = ({ state }: Workload) => (state === 'running' ? 0 : 1);
  const all = await client.list(false);
  return all.sort((a, b) => rank(a) - rank(b) || (a.name < b.name ? -1 : 1));
}

function titleOf(workloads: Workload[]): string {
  const running = workloads.filter(({ state }) => state === 'running').length;
  const count = `${workloads.length} ${workloads.length === 1 ? 'workload' : 'workloads'}`;
  return `${count}, ${running} running`;
}
