/**
 * The commands about secrets.
 */
import type { Command } from 'commander';
import { type Go, json_text } from './go.ts';

export function addSecrets(program: Command, go: Go): void {
  const group = program
    .command('secrets')
    .description('what workloads may need and nobody reads back, such as hf-token');
  group
    .command('ls')
    .description('names of the secrets, and who set them')
    .option('--json', json_text)
    .action(
      go(async (context, options) => (await import('../secrets.ts')).listSecrets(context, options)),
    );
  group
    .command('set')
    .description('set a secret: its value from stdin, or typed without echo')
    .argument('<name>', 'such as hf-token')
    .option('--json', json_text)
    .action(
      go(async (context, name: string, options) =>
        (await import('../secrets.ts')).setSecret(context, name, options),
      ),
    );
  group
    .command('rm')
    .description('remove a secret')
    .argument('<name>', 'its name')
    .option('--json', json_text)
    .action(
      go(async (context, name: string, options) =>
        (await import('../secrets.ts')).removeSecret(context, name, options),
      ),
    );
}
