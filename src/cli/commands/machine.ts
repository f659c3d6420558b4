/**
 * The commands about one machine.
 */
import type { Command } from 'commander';
import { type Go, json_text } from './go.ts';

export function addMachine(program: Command, go: Go): void {
  const group = program.command('machine').description('one machine');
  const named = 'its id or name; needed where there is more than one';
  group
    .command('show')
    .description('what it has, each of its GPUs, and what cannot run there and why')
    .argument('[machine]', named)
    .option('--json', json_text)
    .action(
      go(async (context, name: string | undefined, options) =>
        (await import('../machine.ts')).showMachine(context, name, options),
      ),
    );
  group
    .command('refresh')
    .description('have it look at itself anew, as after a driver was installed')
    .argument('[machine]', named)
    .option('--json', json_text)
    .action(
      go(async (context, name: string | undefined, options) =>
        (await import('../machine.ts')).refreshMachine(context, name, options),
      ),
    );
}
