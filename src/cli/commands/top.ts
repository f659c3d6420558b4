/**
 * The commands that watch use: what workloads use, and when they are stopped for being unused.
 */
import { type Command, InvalidArgumentError } from 'commander';
import { parseDuration } from '../parse.ts';
import { type Go, json_text } from './go.ts';

export function addTop(program: Command, go: Go): void {
  program
    .command('top')
    .description('what the workloads use, now: CPU, memory, disk, GPU, last use')
    .option('--once', 'print it once, and do not stay')
    .option('--json', json_text)
    .action(go(async (context, options) => (await import('../top.ts')).top(context, options)));
  program
    .command('idle')
    .description(
      'stop a workload when nobody used it for a while; show that where no time is given',
    )
    .argument('<workload>', 'name or id')
    .argument('[time]', 'such as 30m or 2h; off: never', parseIdle)
    .option('--json', json_text)
    .action(
      go(async (context, name: string, after_ms: number | null | undefined, options) =>
        (await import('../idle.ts')).idle(context, name, after_ms, options),
      ),
    );
}

function parseIdle(text: string): number | null {
  if (text === 'off') return null;
  const after_ms = parseDuration(text);
  if (after_ms < 60_000) throw new InvalidArgumentError('Give at least 1m, or off.');
  return Math.round(after_ms);
}
