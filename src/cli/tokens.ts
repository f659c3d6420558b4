/**
 * `einsora tokens` and `sessions`: the proofs that one has given out, and taking them back.
 *
 * Invariants: a token is printed once, alone on stdout, so that it can be piped into a vault.
 */
import type { ApiToken, NewApiToken, Session } from '../contract/accounts.ts';
import { formatAgo } from '../core/format.ts';
import { isScope, scopes } from '../core/scopes.ts';
import { suggested, usageError } from './cli-error.ts';
import { allPages, openClient, type Page, withQuery } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { oneLine, printData, printJson, printTable, say } from './output.ts';
import { untilText } from './until.ts';

type JsonOption = { json?: boolean };
export type OfUser = JsonOption & { user?: string };

export async function listTokens(
  context: Context,
  options: OfUser & { all?: boolean },
): Promise<number> {
  const { call } = openClient(context);
  const now = context.io.clock.now();
  const { user } = options;
  const every = await allPages((cursor) =>
    call<Page<ApiToken>>('GET', withQuery('/v1/tokens', { user, cursor })),
  );
  const items = options.all ? every : every.filter((token) => works(token, now));
  if (options.json) {
    printJson(context, { items });
    return exitCode('ok');
  }
  if (items.length === 0) {
    const create = 'tokens create ci --scope workloads:write';
    say(context, `No tokens. Try: ${suggested(context.config, create)}`);
    return exitCode('ok');
  }
  const rows = items.map((token) => [
    token.id,
    token.name,
    `…${token.last_four}`,
    token.role,
    token.scopes?.join(' ') ?? 'all',
    token.last_used_at === null ? 'never' : formatAgo(now - token.last_used_at),
    stateOf(token, now),
  ]);
  printTable(context, ['ID', 'NAME', 'ENDS IN', 'ROLE', 'SCOPES', 'LAST USED', 'WORKS'], rows);
  return exitCode('ok');
}

export type CreateOptions = JsonOption & {
  scope?: string[];
  role?: string;
  expires?: number;
  never?: boolean;
};

export async function createToken(
  context: Context,
  name: string,
  options: CreateOptions,
): Promise<number> {
  const { scope, role, expires, never } = options;
  if (never && expires !== undefined) throw usageError('give --expires or --never, not both');
  const asked = scope?.flatMap((one) => one.split(','));
  const unknown = asked?.find((one) => !isScope(one));
  if (unknown !== undefined) {
    throw usageError(`${unknown} is no scope: give some of ${scopes.join(', ')}`);
  }
  const body = {
    name,
    ...(asked === undefined ? {} : { scopes: asked }),
    ...(role === undefined ? {} : { role }),
    ...(expires === undefined ? {} : { expires_in_ms: expires }),
    ...(never ? { expires_in_ms: null } : {}),
  };
  const { call } = openClient(context);
  const made = await call<NewApiToken>('POST', '/v1/tokens', { body, once: true });
  if (options.json) {
    printJson(context, made);
    return exitCode('ok');
  }
  printData(context, made.token);
  const lasts =
    made.expires_at === null ? 'for ever' : untilText(made.expires_at - context.io.clock.now());
  const what = made.scopes === null ? 'all that you may' : made.scopes.join(' ');
  const shown = oneLine(made.name);
  say(context, `${shown}: ${what}, at most as ${made.role}, ${lasts}. It is shown once.`);
  say(context, `  take it back: ${suggested(context.config, `tokens revoke ${made.id}`)}`);
  return exitCode('ok');
}

export async function revokeToken(
  context: Context,
  id: string,
  options: JsonOption,
): Promise<number> {
  await openClient(context).call<null>('DELETE', `/v1/tokens/${encodeURIComponent(id)}`);
  if (options.json) printJson(context, { id, revoked: true });
  else say(context, 'That token opens nothing any more.');
  return exitCode('ok');
}

export async function listSessions(context: Context, options: OfUser): Promise<number> {
  const { call } = openClient(context);
  const { user } = options;
  const items = await allPages((cursor) =>
    call<Page<Session>>('GET', withQuery('/v1/sessions', { user, cursor })),
  );
  if (options.json) {
    printJson(context, { items });
    return exitCode('ok');
  }
  if (items.length === 0) {
    say(context, `No browser is signed in. Try: ${suggested(context.config, 'open')}`);
    return exitCode('ok');
  }
  const now = context.io.clock.now();
  const rows = items.map((session) => [
    session.id,
    session.user,
    session.signed_in_by,
    formatAgo(now - session.created_at),
    formatAgo(now - session.last_used_at),
    untilText(session.expires_at - now),
    session.client,
  ]);
  printTable(context, ['ID', 'USER', 'BY', 'SIGNED IN', 'LAST USED', 'LASTS', 'BROWSER'], rows);
  return exitCode('ok');
}

export async function revokeSessions(
  context: Context,
  ids: string[],
  options: OfUser & { all?: boolean },
): Promise<number> {
  if (options.all !== true && ids.length === 0) {
    throw usageError('give the ids of sessions, or --all', 'bin/einsora sessions ls');
  }
  const { call } = openClient(context);
  let revoked = 0;
  if (options.all) {
    const query = options.user === undefined ? '' : `?user=${encodeURIComponent(options.user)}`;
    revoked = (await call<{ revoked: number }>('DELETE', `/v1/sessions${query}`)).revoked;
  } else {
    for (const id of ids) {
      await call<null>('DELETE', `/v1/sessions/${encodeURIComponent(id)}`);
      revoked += 1;
    }
  }
  if (options.json) printJson(context, { revoked });
  else say(context, revoked === 1 ? 'One browser is signed out.' : `${revoked} are signed out.`);
  return exitCode('ok');
}

function works(token: ApiToken, now: number): boolean {
  return token.revoked_at === null && (token.expires_at === null || token.expires_at > now);
}

function stateOf(token: ApiToken, now: number): string {
  if (token.revoked_at !== null) return 'revoked';
  return token.expires_at === null ? 'for ever' : untilText(token.expires_at - now);
}
