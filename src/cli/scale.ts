/**
 * `einsora endpoint scale`: how many replicas of an endpoint are to answer at once.
 */
import type { Workload } from '../contract/workloads.ts';
import { openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { printData, printJson, say } from './output.ts';
import { replicaLines, replicasText } from './replica-view.ts';
import { onWorkload } from './workload-name.ts';

export async function scale(
  context: Context,
  name: string,
  replicas: number,
  options: { json?: boolean },
): Promise<number> {
  const client = openClient(context);
  const path = `/v1/workloads/${encodeURIComponent(name)}/scale`;
  const workload = await onWorkload(client, name, () =>
    client.call<Workload>('POST', path, { body: { replicas } }),
  );
  if (options.json) {
    printJson(context, workload);
    return exitCode('ok');
  }
  const ready = replicasText(workload);
  const words = replicas === 1 ? 'one replica' : `${replicas} replicas`;
  say(context, `${workload.name} is to have ${words}${ready === null ? '' : `: ${ready}`}.`);
  for (const line of replicaLines(workload)) printData(context, line);
  return exitCode('ok');
}
