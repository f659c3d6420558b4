/**
 * The commands about usage: what was used, what may be, and all that is recorded of a workload.
 */
import { type Command, Option } from 'commander';
import { orNone, parseAmount, parseCountOrZero, parseSize } from '../parse.ts';
import { type Go, json_text } from './go.ts';

const tenant_text = "another tenant's, for operators (id or slug)";

export function addUsage(program: Command, go: Go): void {
  program
    .command('usage')
    .description(
      'who used how much for how long; by key, model or guest: what was asked of endpoints',
    )
    .option('--from <moment>', 'from this moment on: 2027-01-31, 2027-01-31T12:00, or 7d ago')
    .option('--to <moment>', 'up to this moment')
    .addOption(
      new Option('--by <what>', 'one line for each').choices([
        ...['user', 'workload', 'class', 'day', 'key', 'model', 'guest'],
      ]),
    )
    .option('--tenant <tenant>', tenant_text)
    .option('--json', json_text)
    .action(go(async (context, options) => (await import('../usage.ts')).usage(context, options)));
  addQuota(program, go);
  program
    .command('export')
    .description('everything recorded about a workload, as one JSON file without its secrets')
    .argument('<workload>', 'name or id')
    .option('-o, --output <file>', 'write it there, for you alone')
    .action(
      go(async (context, name: string, options) =>
        (await import('../export.ts')).exportWorkload(context, name, options),
      ),
    );
}

function addQuota(program: Command, go: Go): void {
  const group = program.command('quota').description('how much may be claimed at once');
  group
    .command('show')
    .description('limits, and what is claimed of them')
    .option('--tenant <tenant>', tenant_text)
    .option('--json', json_text)
    .action(
      go(async (context, options) => (await import('../quota.ts')).showQuota(context, options)),
    );
  group
    .command('set')
    .description('set limits; `none` lifts one, what is not named stays')
    .option('--tenant <tenant>', tenant_text)
    .option('--user <user>', 'of this user alone')
    .option('--class <class>', 'of this class alone')
    .option('--workloads <count>', 'workloads at once', orNone(parseCountOrZero))
    .option('--gpus <count>', 'GPUs', orNone(parseCountOrZero))
    .option('--cpu <cores>', 'CPU', orNone(parseAmount))
    .option('--memory <size>', 'memory, such as 64GiB', orNone(parseSize))
    .option('--disk <size>', 'disk, such as 500GiB', orNone(parseSize))
    .option('--json', json_text)
    .action(
      go(async (context, options) => (await import('../quota.ts')).setQuota(context, options)),
    );
}
