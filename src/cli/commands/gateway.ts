/**
 * The commands about the gateway.
 */
import type { Command } from 'commander';
import { type Go, json_text } from './go.ts';

export function addGateway(program: Command, go: Go): void {
  program
    .command('gateway')
    .description('what is asked of the models')
    .command('top')
    .description('by model and by key, now: requests, tokens, errors, who waits, first tokens')
    .option('--once', 'print it once, and do not stay')
    .option('--tenant <tenant>', "another tenant's, for operators (id or slug)")
    .option('--json', json_text)
    .action(
      go(async (context, options) =>
        (await import('../gateway-top.ts')).gatewayTop(context, options),
      ),
    );
}
