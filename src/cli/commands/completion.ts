/**
 * Completion in the shell: the script that a shell loads, and the command that the script calls.
 */
import { Argument, type Command } from 'commander';
import type { Go } from './go.ts';

export function addCompletion(program: Command, go: Go): void {
  program
    .command('completion')
    .description('print what a shell needs to complete commands, options and names')
    .addArgument(new Argument('<shell>', 'yours').choices(['bash', 'zsh', 'fish']))
    .addHelpText('after', '\nIn ~/.bashrc or ~/.zshrc: eval "$(einsora completion bash)"')
    .action(
      go(async (context, shell: 'bash' | 'zsh' | 'fish') =>
        (await import('../completion.ts')).completion(context, shell),
      ),
    );
  program
    .command('complete', { hidden: true })
    .argument('[words...]', 'what is typed so far, the last one in the making')
    .action(
      go(async (context, words: string[]) =>
        (await import('../completion.ts')).complete(context, program, words),
      ),
    );
}
