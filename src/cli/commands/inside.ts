/**
 * The commands that reach inside a run: programs beside it, and its files.
 */
import type { Command } from 'commander';
import { type Go, json_text } from './go.ts';

export function addInside(program: Command, go: Go): void {
  program
    .command('exec')
    .description('run a program in a workload: its shell where none is given')
    .argument('<workload>', 'name or id')
    .argument('[command...]', 'the program and its arguments, after --')
    .option('-i, --stdin', 'hand on what comes on stdin')
    .option('-t, --tty', 'give it a terminal; by itself where there is one here')
    .option('-T, --no-tty', 'give it none')
    .option('-e, --env <variable...>', 'a variable for it, as NAME=value')
    .option('-w, --cwd <folder>', 'where to start; else its workspace')
    .action(
      go(async (context, name: string, argv: string[], options) =>
        (await import('../exec.ts')).exec(context, name, argv, options),
      ),
    );
  program
    .command('cp')
    .description('copy files and folders into a workload, or out of it')
    .argument('<from>', 'a path here, <workload>:/path, or - for stdin')
    .argument('<to>', '<workload>:/path, a path here, or - for stdout')
    .option('-r, --recursive', 'folders, with all that is in them')
    .option('--json', json_text)
    .action(
      go(async (context, from: string, to: string, options) =>
        (await import('../cp.ts')).cp(context, from, to, options),
      ),
    );
}
