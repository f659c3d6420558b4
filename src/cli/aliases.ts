/**
 * `einsora endpoint alias`: further names of an endpoint, for clients that ask for a model by them.
 */
import type { Aliases } from '../contract/model-routes.ts';
import { openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { printJson, say } from './output.ts';

/** Without names it only says which there are. */
export async function changeAliases(
  context: Context,
  name: string,
  add: string[],
  options: { remove?: string[]; json?: boolean },
): Promise<number> {
  const path = `/v1/workloads/${encodeURIComponent(name)}/aliases`;
  const body = { add, remove: options.remove ?? [] };
  const now = await openClient(context).call<Aliases>('PUT', path, { body });
  if (options.json) printJson(context, now);
  else if (now.aliases.length === 0) say(context, `${now.model} has no other name.`);
  else say(context, `${now.model} is also called ${now.aliases.join(', ')}.`);
  return exitCode('ok');
}
