/**
 * The commands of a machine's owner at that machine: its button, and its policy file.
 */
import type { Command } from 'commander';
import { parseDuration } from '../parse.ts';
import { type Go, json_text } from './go.ts';

export function addGuard(program: Command, go: Go): void {
  program
    .command('pause')
    .description('you need this machine: nothing new starts on it, and guests are asked to go')
    .option('--for <time>', 'so long (30m, 2h); else until: einsora resume', parseDuration)
    .option('--now', 'guests get no grace')
    .option('--all', 'your own workloads stand still too, and go on where they were')
    .option('--json', json_text)
    .action(
      go(async (context, options) => (await import('../guard.ts')).pauseHere(context, options)),
    );
  program
    .command('resume')
    .description('you are done: this machine takes workloads again')
    .option('--json', json_text)
    .action(
      go(async (context, options) => (await import('../guard.ts')).resumeHere(context, options)),
    );
}

/** Adds it to the group `machine`. */
export function addPolicy(group: Command, go: Go): void {
  const policy = group
    .command('policy')
    .description('what this machine keeps for you, and what guests may not do on it');
  policy
    .command('show')
    .description('what is in force, and from which file')
    .option('--json', json_text)
    .action(
      go(async (context, options) =>
        (await import('../machine-policy.ts')).showPolicy(context, options),
      ),
    );
  policy
    .command('check')
    .description('whether a file would be understood, and what of it not')
    .argument('<file>', 'a JSON file')
    .option('--json', json_text)
    .action(
      go(async (context, file: string, options) =>
        (await import('../machine-policy.ts')).checkPolicy(context, file, options),
      ),
    );
  policy
    .command('path')
    .description('where the file has to stand')
    .option('--json', json_text)
    .action(
      go(async (context, options) =>
        (await import('../machine-policy.ts')).printPolicyPath(context, options),
      ),
    );
}
