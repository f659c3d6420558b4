/**
 * What the owner's people do about a machine: part of the commands about one machine.
 */
import { type Command, Option } from 'commander';
import { parseAmount, parseSize } from '../parse.ts';
import { type Go, json_text } from './go.ts';

const named = 'its id or name; needed where there is more than one';

/** Adds them to the group `machine`. */
export function addMachineCare(group: Command, go: Go): void {
  addSharing(group, go);
  addUse(group, go);
  addEnd(group, go);
}

function addSharing(group: Command, go: Go): void {
  group
    .command('share')
    .description('say who else may run something on it; who may not any more is stopped')
    .argument('[machine]', named)
    .option('--private', 'nobody else (the default)')
    .option('--invite-only', 'only those who are invited')
    .option('--community', 'everybody of this deployment')
    .option('--invite <tenant>', 'invite a tenant; as often as there are', collect)
    .option('--uninvite <tenant>', 'take an invitation back', collect)
    .addOption(new Option('--to <tenant>', 'the same as --invite').argParser(collect).hideHelp())
    .option('--json', json_text)
    .action(
      go(async (context, name: string | undefined, options) =>
        (await import('../machine-care.ts')).shareMachine(context, name, options),
      ),
    );
  group
    .command('give')
    .description('give it to another tenant: private there, and drained until they undrain it')
    .argument('[machine]', named)
    .requiredOption('--to <tenant>', 'who gets it')
    .option('--json', json_text)
    .action(
      go(async (context, name: string | undefined, options) =>
        (await import('../machine-care.ts')).giveMachine(context, name, options),
      ),
    );
}

function addUse(group: Command, go: Go): void {
  group
    .command('drain')
    .description('place nothing new on it; what runs there stays, unless --stop')
    .argument('[machine]', named)
    .option('--stop', 'stop what runs there; it goes on where it can')
    .option('--json', json_text)
    .action(
      go(async (context, name: string | undefined, options) =>
        (await import('../machine-care.ts')).drainMachine(context, name, options),
      ),
    );
  group
    .command('undrain')
    .description('place on it again')
    .argument('[machine]', named)
    .option('--json', json_text)
    .action(
      go(async (context, name: string | undefined, options) =>
        (await import('../machine-care.ts')).undrainMachine(context, name, options),
      ),
    );
  group
    .command('rename')
    .description('give it a name, which outlives what the machine calls itself')
    .argument('<machine>', 'its id or name')
    .argument('<name>', 'its new name')
    .option('--json', json_text)
    .action(
      go(async (context, machine: string, name: string, options) =>
        (await import('../machine-care.ts')).renameMachine(context, machine, name, options),
      ),
    );
  group
    .command('limits')
    .description('say what it offers at most; `none` lifts a limit, what is not named stays')
    .argument('[machine]', named)
    .option('--cpu <cores>', 'CPU cores', orNone(parseAmount))
    .option('--memory <size>', 'memory, such as 32GiB', orNone(parseSize))
    .option('--disk <size>', 'disk, such as 200GiB', orNone(parseSize))
    .option('--json', json_text)
    .action(
      go(async (context, name: string | undefined, options) =>
        (await import('../machine-care.ts')).limitMachine(context, name, options),
      ),
    );
}

function addEnd(group: Command, go: Go): void {
  group
    .command('fence')
    .description('say that it is powered off: what ran there counts as over')
    .argument('[machine]', named)
    .option('--powered-off', 'you know that it is off')
    .option('--confirm <name>', 'its name once more, where there is no terminal to ask on')
    .option('--json', json_text)
    .action(
      go(async (context, name: string | undefined, options) =>
        (await import('../machine-care.ts')).fenceMachine(context, name, options),
      ),
    );
  group
    .command('rm')
    .description('remove it; refused while something runs or keeps its disk there')
    .argument('<machine>', 'its id or name')
    .option('--forget-homes', 'give up the disks that your workloads keep there')
    .option('--json', json_text)
    .action(
      go(async (context, name: string, options) =>
        (await import('../machine-care.ts')).removeMachine(context, name, options),
      ),
    );
}

function collect(text: string, before: string[] = []): string[] {
  return [...before, text];
}

function orNone(parse: (text: string) => number): (text: string) => number | 'none' {
  return (text) => (text === 'none' ? text : parse(text));
}
