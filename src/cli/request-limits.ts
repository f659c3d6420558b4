/**
 * `einsora limits`: of users over all their keys, and of models over all who ask them.
 */
import type { LimitedView } from '../contract/request-limits.ts';
import { suggested, usageError } from './cli-error.ts';
import { openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { type LimitOptions, limitsOf, limitWords } from './limit-words.ts';
import { withQuery } from './newest.ts';
import { printJson, printTable, say } from './output.ts';

type JsonOption = { json?: boolean };

export async function showLimits(
  context: Context,
  { tenant, json }: JsonOption & { tenant?: string },
): Promise<number> {
  const path = withQuery('/v1/request-limits', { tenant });
  const { items } = await openClient(context).call<{ items: LimitedView[] }>('GET', path);
  if (json) printJson(context, { items });
  else if (items.length === 0) {
    const command = suggested(context.config, 'limits set --model MODEL --concurrency 8');
    say(context, `Nothing is limited but keys that are (keys ls). Try: ${command}`);
  } else {
    const rows = items.map(({ kind, name, limits, use }) => [kind, name, limitWords(limits, use)]);
    printTable(context, ['WHOSE', 'NAME', 'USED OF LIMITS'], rows);
  }
  return exitCode('ok');
}

export async function setLimits(
  context: Context,
  options: JsonOption & LimitOptions & { user?: string; model?: string },
): Promise<number> {
  const { user, model, json } = options;
  const body = limitsOf(options);
  const path = pathOf(user, model);
  if (path === null || Object.keys(body).length === 0) {
    const problem = path === null ? 'it takes one of --user and --model' : 'no limit is given';
    throw usageError(problem, 'bin/einsora limits set --user ada --rpm 60 --tpm none');
  }
  const limited = await openClient(context).call<LimitedView>('PUT', path, { body });
  if (json) printJson(context, limited);
  else {
    const { kind, name, limits } = limited;
    say(context, `${kind} ${name} from the next request on: ${limitWords(limits)}`);
  }
  return exitCode('ok');
}

function pathOf(user: string | undefined, model: string | undefined): string | null {
  if (user !== undefined && model !== undefined) return null;
  if (user !== undefined) return `/v1/users/${encodeURIComponent(user)}/limits`;
  return model === undefined ? null : `/v1/workloads/${encodeURIComponent(model)}/limits`;
}
