/**
 * The commands by which a person signs in, and says which control plane is meant.
 */
import type { Command } from 'commander';
import { type Go, json_text } from './go.ts';

const stdin_text = 'read it from stdin, one line';

export function addLogin(program: Command, go: Go): void {
  program
    .command('login')
    .description('sign this command line in by name and password, or by an invitation')
    .option('--url <url>', 'of the control plane; this machine’s where left out')
    .option('--name <user>', 'your user name; asked for where left out')
    .option('--invite', 'become a user by an invitation, which is asked for')
    .option('--password-stdin', `${stdin_text}; with --invite the invitation in a line before it`)
    .option('--json', json_text)
    .action(go(async (context, options) => (await import('../login.ts')).login(context, options)));
  program
    .command('logout')
    .description('revoke the token of this command line, and forget it')
    .option('--json', json_text)
    .action(go(async (context, options) => (await import('../login.ts')).logout(context, options)));
  program
    .command('passwd')
    .description('set your password')
    .option('--password-stdin', `${stdin_text}; the current one in a line before it`)
    .option('--json', json_text)
    .action(go(async (context, options) => (await import('../login.ts')).passwd(context, options)));
  addContext(program, go);
}

function addContext(program: Command, go: Go): void {
  const group = program
    .command('context')
    .description('the control planes that you signed in to; local is the one of this machine');
  group
    .command('ls')
    .description('all of them, and which is used')
    .option('--json', json_text)
    .action(
      go(async (context, options) =>
        (await import('../context.ts')).listContexts(context, options),
      ),
    );
  group
    .command('show')
    .description('the one that is used, and as whom')
    .option('--json', json_text)
    .action(
      go(async (context, options) => (await import('../context.ts')).showContext(context, options)),
    );
  const one = (name: string, what: string) =>
    group
      .command(name)
      .description(what)
      .argument('<context>', 'of context ls')
      .option('--json', json_text);
  one('use', 'use this one from now on').action(
    go(async (context, name: string, options) =>
      (await import('../context.ts')).useContext(context, name, options),
    ),
  );
  one('rm', 'forget one, without revoking its token').action(
    go(async (context, name: string, options) =>
      (await import('../context.ts')).removeContext(context, name, options),
    ),
  );
}
