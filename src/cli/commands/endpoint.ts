/**
 * The commands about endpoints: how many replicas, and to whom else they are open.
 */
import { type Command, Option } from 'commander';
import { parseCount } from '../parse.ts';
import { collect, type Go, json_text } from './go.ts';

export function addEndpoint(program: Command, go: Go): void {
  program
    .command('routes')
    .description("your tenant's models by name: who answers for each, how busy, what failed")
    .option('--json', json_text)
    .action(
      go(async (context, options) => (await import('../routes.ts')).routes(context, options)),
    );
  const group = program
    .command('endpoint')
    .description('endpoints: how many replicas, and who else may send prompts to one');
  group
    .command('scale')
    .description('how many replicas of an endpoint are to answer at once; fewer end from the last')
    .argument('<workload>', 'name or id of your endpoint')
    .argument('<replicas>', 'from 1 to 16', parseCount)
    .option('--json', json_text)
    .action(
      go(async (context, name: string, replicas: number, options) =>
        (await import('../scale.ts')).scale(context, name, replicas, options),
      ),
    );
  group
    .command('alias')
    .description('give an endpoint further names for clients, or take some away')
    .argument('<workload>', 'name or id of your endpoint')
    .argument('[alias...]', 'names to add')
    .option('--remove <alias>', 'one to take away; may be repeated', collect)
    .option('--json', json_text)
    .action(
      go(async (context, name: string, add: string[], options) =>
        (await import('../aliases.ts')).changeAliases(context, name, add, options),
      ),
    );
  group
    .command('share')
    .description('open it to tenants that its machine is shared with; alone: say to whom it is')
    .argument('<workload>', 'name or id of your endpoint')
    .option('--invite <tenant>', 'a tenant, by slug; may be repeated', collect)
    .addOption(new Option('--to <tenant>', 'the same as --invite').argParser(collect).hideHelp())
    .option('--community', 'every tenant that its machine is shared with')
    .option('--json', json_text)
    .action(
      go(async (context, name: string, options) =>
        (await import('../endpoint-sharing.ts')).shareEndpoint(context, name, options),
      ),
    );
  group
    .command('unshare')
    .description('close it again, from their next request on')
    .argument('<workload>', 'name or id of your endpoint')
    .option('--from <tenant>', 'a tenant, by slug; may be repeated', collect)
    .option('--community', 'those who were not named')
    .option('--all', 'everybody')
    .option('--json', json_text)
    .action(
      go(async (context, name: string, options) =>
        (await import('../endpoint-sharing.ts')).unshareEndpoint(context, name, options),
      ),
    );
  group
    .command('open')
    .description('endpoints of others that take prompts of your tenant')
    .option('--json', json_text)
    .action(
      go(async (context, options) =>
        (await import('../endpoint-sharing.ts')).listOpen(context, options),
      ),
    );
}
