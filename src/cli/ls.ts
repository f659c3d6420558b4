/**
 * `einsora ls`: the workloads, with the reason for what is not as asked.
 */
import type { Workload } from '../contract/workloads.ts';
import { formatAgo } from '../core/format.ts';
import { suggested } from './cli-error.ts';
import { openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import { classText } from './fallback-view.ts';
import type { Context } from './io.ts';
import { printJson, printTable, say } from './output.ts';
import { reclaimNote } from './reclaim-view.ts';
import { countdownText } from './use-view.ts';
import { stateText } from './workload-name.ts';

export type LsOptions = { all?: boolean; json?: boolean };

export async function ls(context: Context, options: LsOptions): Promise<number> {
  const items = await openClient(context).list(options.all === true);
  if (options.json) {
    printJson(context, { items });
  } else if (items.length === 0) {
    const launch = 'launch endpoint smollm2-135m';
    say(context, `No workloads yet. Try: ${suggested(context.config, launch)}`);
  } else {
    // A deleted one is named by its id alone: its name may be another's by now.
    const ids = options.all === true;
    const headings = ['NAME', 'KIND', 'STATE', 'SINCE', 'CLASS', 'MACHINE', 'ISOLATION', 'REASON'];
    const now = context.io.clock.now();
    printTable(
      context,
      ids ? ['ID', ...headings] : headings,
      items.map((workload) => (ids ? [workload.id, ...row(workload, now)] : row(workload, now))),
    );
  }
  return exitCode('ok');
}

/** What ends it by itself soon is worth a word. */
function idleNote(workload: Workload): string | null {
  const countdown = countdownText(workload);
  return countdown === null ? null : `idle stop ${countdown}`;
}

function row(workload: Workload, now: number): string[] {
  const { placement, reason } = workload;
  return [
    workload.name,
    workload.kind,
    stateText(workload, now),
    formatAgo(now - workload.state_since),
    classText(workload),
    placement?.machine_name ?? '',
    placement?.isolation ?? '',
    reason?.message ?? reclaimNote(workload) ?? workload.held_back ?? idleNote(workload) ?? '',
  ];
}
