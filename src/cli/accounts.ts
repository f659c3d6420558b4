/**
 * `einsora users`, `tenants` and `invite`: who may do what, for those who administer them.
 *
 * Invariants: a link is printed once, on stdout alone; all the talk is on stderr.
 */
import type { Invitation, NewInvitation, Tenant, User } from '../contract/accounts.ts';
import { formatAgo } from '../core/format.ts';
import { suggested } from './cli-error.ts';
import { allPages, openClient, type Page, withQuery } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { oneLine, pairLines, printData, printJson, printTable, say } from './output.ts';
import { untilText } from './until.ts';

type JsonOption = { json?: boolean };
export type OfTenant = JsonOption & { tenant?: string };

const userPath = (name: string, rest = '') => `/v1/users/${encodeURIComponent(name)}${rest}`;
const tenantPath = (name: string, rest = '') => `/v1/tenants/${encodeURIComponent(name)}${rest}`;

export async function listUsers(context: Context, options: OfTenant): Promise<number> {
  const { call } = openClient(context);
  const { tenant } = options;
  const items = await allPages((cursor) =>
    call<Page<User>>('GET', withQuery('/v1/users', { tenant, cursor })),
  );
  if (options.json) {
    printJson(context, { items });
    return exitCode('ok');
  }
  const now = context.io.clock.now();
  const rows = items.map((user) => [
    user.name,
    user.role,
    user.tenant,
    user.has_password ? 'yes' : 'no',
    user.last_used_at === null ? 'never' : formatAgo(now - user.last_used_at),
    user.disabled_at === null ? 'active' : 'disabled',
  ]);
  printTable(context, ['NAME', 'ROLE', 'TENANT', 'PASSWORD', 'LAST USED', 'STATE'], rows);
  if (items.length === 1)
    say(context, `Invite others with: ${suggested(context.config, 'invite')}`);
  return exitCode('ok');
}

export async function showUser(
  context: Context,
  name: string,
  options: JsonOption,
): Promise<number> {
  const user = await openClient(context).call<User>('GET', userPath(name));
  if (options.json) {
    printJson(context, user);
    return exitCode('ok');
  }
  const now = context.io.clock.now();
  const { id, role, tenant, has_password, created_at, last_used_at, disabled_at } = user;
  const lines = pairLines([
    ['name', user.name],
    ['id', id],
    ['role', role],
    ['tenant', tenant],
    ['password', has_password ? 'set' : 'none'],
    ['joined', formatAgo(now - created_at)],
    ['last used', last_used_at === null ? 'never' : formatAgo(now - last_used_at)],
    ['disabled', disabled_at === null ? null : formatAgo(now - disabled_at)],
  ]);
  for (const line of lines) printData(context, line);
  return exitCode('ok');
}

export async function setRole(
  context: Context,
  name: string,
  role: string,
  options: JsonOption,
): Promise<number> {
  const body = { role };
  const user = await openClient(context).call<User>('PUT', userPath(name, '/role'), { body });
  if (options.json) printJson(context, user);
  else {
    say(context, `${oneLine(user.name)} is ${user.role} now.`);
    say(context, 'Their browsers have to sign in again; their tokens gain nothing by it.');
  }
  return exitCode('ok');
}

export async function disableUser(
  context: Context,
  name: string,
  options: JsonOption,
): Promise<number> {
  const user = await openClient(context).call<User>('POST', userPath(name, '/disable'));
  if (options.json) printJson(context, user);
  else say(context, `${oneLine(user.name)} is disabled: no session, token or key of theirs works.`);
  return exitCode('ok');
}

export async function enableUser(
  context: Context,
  name: string,
  options: JsonOption,
): Promise<number> {
  const user = await openClient(context).call<User>('POST', userPath(name, '/enable'));
  if (options.json) printJson(context, user);
  else say(context, `${oneLine(user.name)} may sign in again; tokens and keys work as before.`);
  return exitCode('ok');
}

export async function resetUser(
  context: Context,
  name: string,
  options: JsonOption,
): Promise<number> {
  const { call } = openClient(context);
  const link = await call<{ url: string; expires_at: number }>('POST', userPath(name, '/reset'));
  if (options.json) {
    printJson(context, link);
    return exitCode('ok');
  }
  printData(context, link.url);
  const until = untilText(link.expires_at - context.io.clock.now());
  say(context, `Sets a new password for ${oneLine(name)}, once, ${until}. Give it to nobody else.`);
  return exitCode('ok');
}

export async function listTenants(context: Context, options: JsonOption): Promise<number> {
  const { call } = openClient(context);
  const items = await allPages((cursor) =>
    call<Page<Tenant>>('GET', withQuery('/v1/tenants', { cursor })),
  );
  if (options.json) {
    printJson(context, { items });
    return exitCode('ok');
  }
  const now = context.io.clock.now();
  const rows = items.map(({ slug, name, users, created_at, disabled_at }) => [
    slug,
    name,
    String(users),
    formatAgo(now - created_at),
    disabled_at === null ? 'active' : 'disabled',
  ]);
  printTable(context, ['SLUG', 'NAME', 'USERS', 'CREATED', 'STATE'], rows);
  return exitCode('ok');
}

export async function createTenant(
  context: Context,
  slug: string,
  options: JsonOption & { name?: string },
): Promise<number> {
  const { name } = options;
  const body = name === undefined ? { slug } : { slug, name };
  const { call } = openClient(context);
  const tenant = await call<Tenant>('POST', '/v1/tenants', { body, once: true });
  if (options.json) printJson(context, tenant);
  else {
    const asAdmin = `invite --tenant ${tenant.slug} --role tenant-admin`;
    say(context, `The tenant ${oneLine(tenant.slug)} is there, without users.`);
    say(context, `  invite its admin: ${suggested(context.config, asAdmin)}`);
  }
  return exitCode('ok');
}

export async function renameTenant(
  context: Context,
  slug: string,
  name: string,
  options: JsonOption,
): Promise<number> {
  const body = { name };
  const tenant = await openClient(context).call<Tenant>('PATCH', tenantPath(slug), { body });
  if (options.json) printJson(context, tenant);
  else say(context, `${oneLine(tenant.slug)} is called ${oneLine(tenant.name)} now.`);
  return exitCode('ok');
}

export async function switchTenant(
  context: Context,
  slug: string,
  to: 'disable' | 'enable',
  options: JsonOption,
): Promise<number> {
  const tenant = await openClient(context).call<Tenant>('POST', tenantPath(slug, `/${to}`));
  if (options.json) printJson(context, tenant);
  else if (to === 'enable') say(context, `Users of ${oneLine(tenant.slug)} may sign in again.`);
  else {
    say(context, `${oneLine(tenant.slug)} is disabled: nothing of its users opens anything.`);
    say(context, 'Its workloads go on until they are stopped.');
  }
  return exitCode('ok');
}

export type InviteOptions = OfTenant & { role?: string; expires?: number };

export async function invite(context: Context, options: InviteOptions): Promise<number> {
  const { role, tenant, expires } = options;
  const body = {
    ...(role === undefined ? {} : { role }),
    ...(tenant === undefined ? {} : { tenant }),
    ...(expires === undefined ? {} : { expires_in_ms: expires }),
  };
  const { call } = openClient(context);
  const made = await call<NewInvitation>('POST', '/v1/invitations', { body, once: true });
  if (options.json) {
    printJson(context, made);
    return exitCode('ok');
  }
  printData(context, made.url);
  const until = untilText(made.expires_at - context.io.clock.now());
  const what = `${made.role} of ${oneLine(made.tenant)}`;
  say(context, `Makes one person ${what}, ${until}. It is shown once; send it to them alone.`);
  say(context, `  take it back: ${suggested(context.config, `invite revoke ${made.id}`)}`);
  return exitCode('ok');
}

export async function listInvitations(context: Context, options: OfTenant): Promise<number> {
  const { call } = openClient(context);
  const { tenant } = options;
  const items = await allPages((cursor) =>
    call<Page<Invitation>>('GET', withQuery('/v1/invitations', { tenant, cursor })),
  );
  if (options.json) {
    printJson(context, { items });
    return exitCode('ok');
  }
  if (items.length === 0) {
    say(context, `No invitations yet. Try: ${suggested(context.config, 'invite')}`);
    return exitCode('ok');
  }
  const now = context.io.clock.now();
  const rows = items.map((one) => [
    one.id,
    one.state,
    one.role,
    one.tenant,
    one.invited_by,
    one.state === 'open' ? untilText(one.expires_at - now) : formatAgo(now - one.created_at),
    one.used_by ?? '',
  ]);
  printTable(context, ['ID', 'STATE', 'ROLE', 'TENANT', 'BY', 'WHEN', 'USED BY'], rows);
  return exitCode('ok');
}

export async function revokeInvitation(
  context: Context,
  id: string,
  options: JsonOption,
): Promise<number> {
  const { call } = openClient(context);
  await call<null>('DELETE', `/v1/invitations/${encodeURIComponent(id)}`);
  if (options.json) printJson(context, { id, revoked: true });
  else say(context, 'That invitation opens nothing any more.');
  return exitCode('ok');
}
