/**
 * The commands about one machine.
 */
import type { Command } from 'commander';
import { type Go, json_text } from './go.ts';
import { addPolicy } from './guard.ts';
import { addMachineCare } from './machine-care.ts';
import { addReclaim } from './reclaim.ts';
import { addMove } from './regions.ts';

export function addMachine(program: Command, go: Go): void {
  const group = program
    .command('machine')
    .description('machines: look at one, share it, drain it, remove it');
  const named = 'its id or name; needed where there is more than one';
  group
    .command('ls')
    .description('the machines: whose they are, how they are shared, what is free')
    .option('--json', json_text)
    .action(
      go(async (context, options) => (await import('../machines.ts')).machines(context, options)),
    );
  group
    .command('show')
    .description('what it has, who may run what there, and what cannot run there and why')
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
  addMachineCare(group, go);
  addReclaim(group, go);
  addPolicy(group, go);
  addMove(group, go);
}
