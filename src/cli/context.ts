/**
 * `einsora context`: the control planes that one signed in to, and which of them is used.
 */
import type { Me } from '../contract/accounts.ts';
import { CliError } from './cli-error.ts';
import { openClient } from './client.ts';
import { local_context } from './config.ts';
import { changeContexts, currentContext, noSuchContext, readContexts } from './contexts.ts';
import { findControlPlane } from './control-plane.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { forget } from './login.ts';
import { pairLines, printData, printJson, printTable, say } from './output.ts';
import { untilText } from './until.ts';

type JsonOption = { json?: boolean };

export async function listContexts(context: Context, options: JsonOption): Promise<number> {
  const { config } = context;
  const used = usedName(context);
  const now = context.io.clock.now();
  const local = findControlPlane(config);
  const items = [
    {
      ...{ name: local_context, used: used === local_context, url: local?.url ?? null },
      ...{ user: null, tenant: null, expires_at: null },
    },
    ...Object.entries(readContexts(config).contexts).map(([name, one]) => {
      const { url, user, tenant, expires_at } = one;
      return { name, used: used === name, url, user, tenant, expires_at };
    }),
  ];
  if (options.json) {
    printJson(context, { items });
    return exitCode('ok');
  }
  const rows = items.map(({ name, used: is_used, url, user, tenant, expires_at }) => [
    is_used ? '*' : ' ',
    name,
    url ?? 'not serving',
    user ?? 'the local owner',
    tenant ?? '',
    expires_at === null ? '' : untilText(expires_at - now),
  ]);
  printTable(context, ['USED', 'NAME', 'URL', 'USER', 'TENANT', 'SIGNED IN'], rows);
  return exitCode('ok');
}

export async function useContext(
  context: Context,
  name: string,
  options: JsonOption,
): Promise<number> {
  changeContexts(context.config, (was) => {
    if (name === local_context) return { ...was, current: null };
    if (!Object.hasOwn(was.contexts, name)) throw noSuchContext(name);
    return { ...was, current: name };
  });
  if (options.json) printJson(context, { current: name });
  else say(context, `Commands go to ${name} from now on.`);
  return exitCode('ok');
}

export async function removeContext(
  context: Context,
  name: string,
  options: JsonOption,
): Promise<number> {
  if (!Object.hasOwn(readContexts(context.config).contexts, name)) throw noSuchContext(name);
  forget(context, name);
  if (options.json) printJson(context, { name, removed: true });
  else say(context, `${name} is forgotten here. Its token works until it ends or is revoked.`);
  return exitCode('ok');
}

/** The one that is used, and as whom, as its control plane says. */
export async function showContext(context: Context, options: JsonOption): Promise<number> {
  const client = openClient(context);
  const me = await client.call<Me>('GET', '/v1/me');
  const shown = { context: usedName(context), url: client.url, ...me };
  if (options.json) {
    printJson(context, shown);
    return exitCode('ok');
  }
  const lasts = me.expires_at === null ? null : untilText(me.expires_at - context.io.clock.now());
  const lines = pairLines([
    ['context', shown.context],
    ['url', shown.url],
    ['user', me.name],
    ['role', me.role],
    ['tenant', me.tenant],
    ['scopes', me.scopes?.join(' ') ?? null],
    ['signed in', lasts],
  ]);
  for (const line of lines) printData(context, line);
  return exitCode('ok');
}

function usedName(context: Context): string | null {
  try {
    return currentContext(context.config)?.name ?? local_context;
  } catch (error) {
    if (error instanceof CliError && error.code === 'not_found') return null;
    throw error;
  }
}
