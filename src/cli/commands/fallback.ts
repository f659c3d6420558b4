/**
 * The commands about what stands in for what was asked, and about making room.
 */
import type { Command } from 'commander';
import { parseDuration } from '../parse.ts';
import { type Go, json_text } from './go.ts';

export function addFallback(program: Command, go: Go): void {
  program
    .command('fallback')
    .description('what may stand in for what a workload asks, once it has waited for that')
    .argument('<workload>', 'name or id')
    .argument('[action...]', 'off; or set and steps in order: set class:NAME cpu; else it is shown')
    .option('--after <time>', 'wait so long for what was asked (5m, 0s); else 10m', parseDuration)
    .option('--return', 'endpoints: go back to what was asked once there is room for it')
    .option('--json', json_text)
    .action(
      go(async (context, name: string, words: string[], options) =>
        (await import('../fallback.ts')).fallback(context, name, words, options),
      ),
    );
  program
    .command('make-room')
    .description('stop idle endpoints of yours so that a workload that waits can run')
    .argument('<workload>', 'name or id of what waits')
    .option('--json', json_text)
    .action(
      go(async (context, name: string, options) =>
        (await import('../fallback.ts')).makeRoom(context, name, options),
      ),
    );
}
