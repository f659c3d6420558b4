/**
 * `einsora idle`: when a workload is stopped for being unused.
 */
import type { Workload } from '../contract/workloads.ts';
import { formatDuration } from '../core/format.ts';
import { openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { printData, printJson } from './output.ts';
import { countdownText } from './use-view.ts';
import { onWorkload } from './workload-name.ts';

export type IdleOptions = { json?: boolean };

/** `after_ms` undefined only shows it; null is never. */
export async function idle(
  context: Context,
  name: string,
  after_ms: number | null | undefined,
  options: IdleOptions,
): Promise<number> {
  const client = openClient(context);
  const path = `/v1/workloads/${encodeURIComponent(name)}/idle`;
  const idle_policy = after_ms === null ? null : { after_ms };
  const workload = await onWorkload(client, name, () =>
    after_ms === undefined
      ? client.show(name)
      : client.call<Workload>('PUT', path, { body: { idle_policy } }),
  );
  if (options.json) printJson(context, workload);
  else printData(context, sentenceOf(workload));
  return exitCode('ok');
}

function sentenceOf(workload: Workload): string {
  const { name, idle_policy, use } = workload;
  if (idle_policy === null) return `${name} is never stopped for being idle.`;
  const rule = `${name} is stopped when nobody used it for ${formatDuration(idle_policy.after_ms)}`;
  if (use?.busy_with === 'unmeasured') {
    return `${rule}, but on its machine that cannot be told: it goes on.`;
  }
  const countdown = countdownText(workload);
  return countdown === null ? `${rule}.` : `${rule}: ${countdown}, unless somebody does.`;
}
