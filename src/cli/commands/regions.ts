/**
 * The commands about regions.
 */
import type { Command } from 'commander';
import { type Go, json_text } from './go.ts';

export function addRegions(program: Command, go: Go): void {
  program
    .command('regions')
    .description('where there are machines')
    .option('--json', json_text)
    .action(
      go(async (context, options) => (await import('../regions.ts')).listRegions(context, options)),
    );
}

/** In the group `machine`. */
export function addMove(group: Command, go: Go): void {
  group
    .command('move')
    .description('say in which region it is (operators); nothing may live there')
    .argument('<machine>', 'its id or name')
    .requiredOption('--region <name>', 'such as attic')
    .option('--json', json_text)
    .action(
      go(async (context, name: string, options) =>
        (await import('../regions.ts')).moveMachine(context, name, options),
      ),
    );
}
