/**
 * `einsora login`, `logout`, `passwd` and `context`: signing in to control planes, and which of
 * them is used.
 *
 * Invariants: passwords and invitations are typed without echo or come from stdin, never from
 * arguments; a token is stored for its user alone; logging out revokes it before it is forgotten.
 */
import { hostname } from 'node:os';
import type { Me, NewApiToken } from '../contract/accounts.ts';
import { checkToken } from '../core/token.ts';
import type { Secret } from '../lib/secret.ts';
import { askLine, askSecret, readLines } from './ask-secret.ts';
import { CliError, usageError } from './cli-error.ts';
import { openClient, openStranger } from './client.ts';
import { checkUrl } from './connection.ts';
import { changeContexts, checkContextName, currentContext, readContexts } from './contexts.ts';
import { findControlPlane } from './control-plane.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { oneLine, printJson, say } from './output.ts';
import { untilText } from './until.ts';

type JsonOption = { json?: boolean };
export type LoginOptions = JsonOption & {
  url?: string;
  name?: string;
  passwordStdin?: boolean;
  invite?: boolean;
};

export async function login(context: Context, options: LoginOptions): Promise<number> {
  const typed = await askInvitation(context, options);
  const url = urlFor(context, options.url ?? typed.invitation?.url);
  const name = options.name ?? (await askName(context));
  const password = typed.password ?? (await askPassword(context, typed.invitation !== null));
  const as = checkContextName(context.config.context_name ?? nameOf(url));
  const before = readContexts(context.config).contexts[as];
  const is_again = before?.url === url && before.user === name;
  const stranger = openStranger(context, url, is_again ? (before.mark ?? null) : null);
  if (typed.invitation !== null) {
    const { token } = typed.invitation;
    const body = { token, name, password: password.reveal() };
    await stranger.call<unknown>('POST', '/v1/join', { body });
    say(context, `Welcome, ${oneLine(name)}.`);
  }
  const token_name = `einsora on ${hostname()}`.slice(0, 63);
  const body = { name, password: password.reveal(), token_name };
  const made = await stranger.call<NewApiToken>('POST', '/v1/login', { body });
  const replaced = is_again ? before.token_id : null;
  return keep(context, options, { as, url, made, mark: stranger.mark(), replaced });
}

/** Remembers the token, as the context that is used from now on. */
async function keep(
  context: Context,
  options: JsonOption,
  found: {
    as: string;
    url: string;
    made: NewApiToken;
    mark: string | null;
    replaced: string | null;
  },
): Promise<number> {
  const { as, url, made, mark, replaced } = found;
  const { token, id, user, expires_at } = made;
  const { config } = context;
  const stored = { url, user, token, token_id: id, expires_at, mark };
  const remember = (tenant: string) =>
    changeContexts(config, (was) => ({
      current: as,
      contexts: { ...was.contexts, [as]: { ...stored, tenant } },
    }));
  remember('');
  const signed_in = { ...context, config: { ...config, is_local: false, context_name: as } };
  const client = openClient(signed_in);
  const me = await client.call<Me>('GET', '/v1/me');
  remember(me.tenant);
  // The token that this one takes the place of: nobody knows it any more.
  if (replaced !== null) await client.call('DELETE', `/v1/tokens/${replaced}`).catch(() => null);
  if (options.json) {
    printJson(context, { context: as, url, user, tenant: me.tenant, role: me.role, expires_at });
    return exitCode('ok');
  }
  const lasts = expires_at === null ? '' : ` ${untilText(expires_at - context.io.clock.now())}`;
  say(context, `Signed in to ${url} as ${oneLine(user)} (${me.role} of ${me.tenant})${lasts}.`);
  say(context, `  context ${as}; others: bin/einsora context ls`);
  return exitCode('ok');
}

export async function logout(context: Context, options: JsonOption): Promise<number> {
  const chosen = currentContext(context.config);
  if (chosen === null) {
    throw usageError(
      'the local owner is signed in by the data folder, so there is nothing to log out of',
      'bin/einsora context ls',
    );
  }
  const { name, stored } = chosen;
  const path = `/v1/tokens/${encodeURIComponent(stored.token_id)}`;
  await openClient(context)
    .call<null>('DELETE', path)
    .catch((error: unknown) => {
      // It is no proof any more: what was wanted.
      if (error instanceof CliError && error.code === 'sign_in_required') return;
      if (error instanceof CliError) error.fix = `bin/einsora context rm ${name} only forgets it`;
      throw error;
    });
  forget(context, name);
  if (options.json) printJson(context, { context: name, logged_out: true });
  else say(context, `Logged out of ${stored.url}: its token is revoked and forgotten.`);
  return exitCode('ok');
}

export async function passwd(
  context: Context,
  options: JsonOption & { passwordStdin?: boolean },
): Promise<number> {
  const { call } = openClient(context);
  const me = await call<Me>('GET', '/v1/me');
  let current: Secret | undefined;
  let password: Secret | undefined;
  if (options.passwordStdin) {
    const lines = await readLines(context, me.has_password ? 2 : 1);
    password = lines.at(-1);
    current = me.has_password ? lines[0] : undefined;
  } else {
    if (me.has_password) current = await ask(context, 'Current password: ');
    password = await askTwice(context);
  }
  const body = {
    password: password?.reveal() ?? '',
    ...(current === undefined ? {} : { current: current.reveal() }),
  };
  await call<null>('PUT', '/v1/me/password', { body });
  if (options.json) printJson(context, { user: me.name, changed: true });
  else say(context, `The password of ${oneLine(me.name)} is set; other browsers are signed out.`);
  return exitCode('ok');
}

export function forget(context: Context, name: string): void {
  changeContexts(context.config, ({ current, contexts }) => {
    const { [name]: _, ...rest } = contexts;
    return { current: current === name ? null : current, contexts: rest };
  });
}

/** With --invite the link, and with --password-stdin what stdin holds. */
async function askInvitation(context: Context, options: LoginOptions) {
  const { invite = false, passwordStdin = false } = options;
  if (passwordStdin) {
    const lines = await readLines(context, invite ? 2 : 1);
    return { invitation: invite ? readLink(lines[0]) : null, password: lines.at(-1) };
  }
  const link = invite ? await ask(context, 'Invitation (it is not shown): ') : undefined;
  return { invitation: invite ? readLink(link) : null, password: undefined };
}

function readLink(link: Secret | undefined): { url: string; token: string } {
  const text = link?.reveal().trim() ?? '';
  const url = URL.canParse(text) ? new URL(text) : null;
  const token = new URLSearchParams(url?.hash.slice(1)).get('t') ?? '';
  if (url === null || !checkToken('eat_', token)) {
    throw usageError('that is no invitation: paste the whole link, from http to its end');
  }
  return { url: url.origin, token };
}

/** Where to sign in: what was given, the context's place, or the control plane of this machine. */
function urlFor(context: Context, given: string | undefined): string {
  if (given !== undefined) return checkUrl(given);
  const { config } = context;
  const { current, contexts } = readContexts(config);
  const named = config.context_name ?? (config.is_local ? null : current);
  const known = named === null ? undefined : contexts[named]?.url;
  const url = known ?? findControlPlane(config)?.url;
  if (url === undefined) {
    throw usageError('where to? give --url', 'bin/einsora login --url http://localhost:4600');
  }
  return checkUrl(url);
}

function nameOf(url: string): string {
  return new URL(url).host.replace(/[^A-Za-z0-9.-]+/g, '-').replace(/^[.-]+|[.-]+$/g, '');
}

async function askName(context: Context): Promise<string> {
  const name = await askLine(context, 'User name: ');
  if (!name) throw usageError('as whom? give --name, such as --name ada');
  return name;
}

function askPassword(context: Context, is_new: boolean): Promise<Secret> {
  return is_new ? askTwice(context) : ask(context, 'Password: ');
}

async function askTwice(context: Context): Promise<Secret> {
  const first = await ask(context, 'New password: ');
  const second = await ask(context, 'Once more: ');
  if (first.reveal() !== second.reveal()) throw usageError('the two are not the same', 'try again');
  return first;
}

async function ask(context: Context, question: string): Promise<Secret> {
  if (context.io.stdin.isTTY !== true) {
    throw usageError('there is no terminal to ask at: pipe it in with --password-stdin');
  }
  return askSecret(context, question);
}
