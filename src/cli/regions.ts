/**
 * `einsora regions` and `einsora machine move`: where machines are.
 */
import type { RegionList } from '../contract/routes/regions.ts';
import { openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { oneLine, printJson, printTable, say } from './output.ts';

type JsonOption = { json?: boolean };

export async function listRegions(context: Context, options: JsonOption): Promise<number> {
  const { items } = await openClient(context).call<RegionList>('GET', '/v1/regions');
  if (options.json) printJson(context, { items });
  else {
    const rows = items.map(({ region, machines }) => [region, String(machines)]);
    printTable(context, ['REGION', 'MACHINES'], rows);
  }
  return exitCode('ok');
}

export async function moveMachine(
  context: Context,
  machine: string,
  options: JsonOption & { region: string },
): Promise<number> {
  const { region } = options;
  const path = `/v1/machines/${encodeURIComponent(machine)}/region`;
  const body = { region };
  const done = await openClient(context).call<{ machine: string }>('PUT', path, { body });
  if (options.json) printJson(context, done);
  else say(context, `${oneLine(done.machine)} is in region ${region} now.`);
  return exitCode('ok');
}
