/**
 * Completion in the shell: the script that a shell loads, and the command that the script calls.
 */
import { Argument, type Command } from 'commander';
import type { Go } from './go.ts';

const help = `
In ~/.bashrc: eval "$(einsora completion bash)"; in zsh and fish alike, with their own names.
Names are waited for 150 ms; a control plane far away may need more: EINSORA_COMPLETION_MS.`;

export function addCompletion(program: Command, go: Go): void {
  program
    .command('completion')
    .description('print what a shell needs to complete commands, options and names')
    .addArgument(new Argument('<shell>', 'yours').choices(['bash', 'zsh', 'fish']))
    .addHelpText('after', help)
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
