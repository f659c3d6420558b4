/**
 * The commands about users, tenants, invitations, tokens and sessions.
 */
import { Argument, type Command, Option } from 'commander';
import { roles } from '../../core/roles.ts';
import { parseDuration } from '../parse.ts';
import { type Go, json_text } from './go.ts';

export function addAccounts(program: Command, go: Go): void {
  addUsers(program, go);
  addTenants(program, go);
  addInvite(program, go);
  addTokens(program, go);
  addSessions(program, go);
}

const roleOption = (what: string) => new Option('--role <role>', what).choices(roles);

function addUsers(program: Command, go: Go): void {
  const group = program.command('users').description('who may do what here');
  group
    .command('ls')
    .description('the users, of all tenants for an operator')
    .option('--tenant <tenant>', 'only of this one')
    .option('--json', json_text)
    .action(
      go(async (context, options) => (await import('../accounts.ts')).listUsers(context, options)),
    );
  const one = (name: string, what: string) =>
    group.command(name).description(what).argument('<user>', 'name or id');
  one('show', 'all about one user')
    .option('--json', json_text)
    .action(
      go(async (context, user: string, options) =>
        (await import('../accounts.ts')).showUser(context, user, options),
      ),
    );
  one('set-role', `give a role: ${roles.join(', ')}; each may do what those before it may`)
    .addArgument(new Argument('<role>', 'not above your own').choices(roles))
    .option('--json', json_text)
    .action(
      go(async (context, user: string, role: string, options) =>
        (await import('../accounts.ts')).setRole(context, user, role, options),
      ),
    );
  one('disable', 'nothing of theirs opens anything from now on')
    .option('--json', json_text)
    .action(
      go(async (context, user: string, options) =>
        (await import('../accounts.ts')).disableUser(context, user, options),
      ),
    );
  one('enable', 'let a disabled user in again')
    .option('--json', json_text)
    .action(
      go(async (context, user: string, options) =>
        (await import('../accounts.ts')).enableUser(context, user, options),
      ),
    );
  one('reset', 'print a link by which they set a new password, once')
    .option('--json', json_text)
    .action(
      go(async (context, user: string, options) =>
        (await import('../accounts.ts')).resetUser(context, user, options),
      ),
    );
}

function addTenants(program: Command, go: Go): void {
  const group = program
    .command('tenants')
    .description('people or organizations whose workloads are kept apart');
  group
    .command('ls')
    .description('the tenants')
    .option('--json', json_text)
    .action(
      go(async (context, options) =>
        (await import('../accounts.ts')).listTenants(context, options),
      ),
    );
  group
    .command('create')
    .description('make a tenant, without users')
    .argument('<slug>', 'up to 20 lower-case letters, digits and dashes; it never changes')
    .option('--name <name>', 'what people call it')
    .option('--json', json_text)
    .action(
      go(async (context, slug: string, options) =>
        (await import('../accounts.ts')).createTenant(context, slug, options),
      ),
    );
  group
    .command('rename')
    .description('change what people call it')
    .argument('<tenant>', 'slug or id')
    .argument('<name>', 'its new name')
    .option('--json', json_text)
    .action(
      go(async (context, tenant: string, name: string, options) =>
        (await import('../accounts.ts')).renameTenant(context, tenant, name, options),
      ),
    );
  const switches = { disable: 'end every proof of its users', enable: 'let its users in again' };
  for (const to of ['disable', 'enable'] as const) {
    group
      .command(to)
      .description(switches[to])
      .argument('<tenant>', 'slug or id')
      .option('--json', json_text)
      .action(
        go(async (context, tenant: string, options) =>
          (await import('../accounts.ts')).switchTenant(context, tenant, to, options),
        ),
      );
  }
}

function addInvite(program: Command, go: Go): void {
  const group = program
    .command('invite')
    .description('print a link that makes one person a user, once')
    .addOption(roleOption('what they may do; member where left out'))
    .option('--tenant <tenant>', 'where they belong; your own where left out')
    .option('--expires <time>', 'how long the link works: 12h, 7d; 3 days', parseDuration)
    .option('--json', json_text)
    .action(
      go(async (context, options) => (await import('../accounts.ts')).invite(context, options)),
    );
  group
    .command('ls')
    .description('the invitations, without their links')
    .option('--tenant <tenant>', 'only of this one')
    .option('--json', json_text)
    .action(
      go(async (context, _, command: Command) =>
        (await import('../accounts.ts')).listInvitations(context, command.optsWithGlobals()),
      ),
    );
  group
    .command('revoke')
    .description('take an invitation back')
    .argument('<id>', 'of invite ls')
    .option('--json', json_text)
    .action(
      go(async (context, id: string, _, command: Command) =>
        (await import('../accounts.ts')).revokeInvitation(context, id, command.optsWithGlobals()),
      ),
    );
}

function addTokens(program: Command, go: Go): void {
  const group = program
    .command('tokens')
    .description('API tokens for scripts: narrower than you, and taken back at any time');
  group
    .command('ls')
    .description('your tokens, without their secrets')
    .option('--user <user>', 'of somebody whom you administer')
    .option('--all', 'revoked and expired ones too')
    .option('--json', json_text)
    .action(
      go(async (context, options) => (await import('../tokens.ts')).listTokens(context, options)),
    );
  group
    .command('create')
    .description('make a token and print it, once')
    .argument('<name>', 'what it is for')
    .option('--scope <area:mode...>', 'only this, such as workloads:read; all where left out')
    .addOption(roleOption('at most this; your own where left out'))
    .option('--expires <time>', 'how long it works: 12h, 30d; 90 days', parseDuration)
    .option('--never', 'it works until it is revoked')
    .option('--json', json_text)
    .action(
      go(async (context, name: string, options) =>
        (await import('../tokens.ts')).createToken(context, name, options),
      ),
    );
  group
    .command('revoke')
    .description('take a token back')
    .argument('<id>', 'of tokens ls')
    .option('--json', json_text)
    .action(
      go(async (context, id: string, options) =>
        (await import('../tokens.ts')).revokeToken(context, id, options),
      ),
    );
}

function addSessions(program: Command, go: Go): void {
  const group = program.command('sessions').description('browsers that are signed in');
  group
    .command('ls')
    .description('yours')
    .option('--user <user>', 'of somebody whom you administer')
    .option('--json', json_text)
    .action(
      go(async (context, options) => (await import('../tokens.ts')).listSessions(context, options)),
    );
  group
    .command('revoke')
    .description('sign browsers out')
    .argument('[id...]', 'of sessions ls')
    .option('--all', 'all of them')
    .option('--user <user>', 'with --all: of somebody whom you administer')
    .option('--json', json_text)
    .action(
      go(async (context, ids: string[], options) =>
        (await import('../tokens.ts')).revokeSessions(context, ids, options),
      ),
    );
}
