/**
 * `einsora machine reclaim` and `release`: part of the commands about one machine.
 */
import { type Command, Option } from 'commander';
import { parseDuration } from '../parse.ts';
import { type Go, json_text } from './go.ts';

/** Adds them to the group `machine`. */
export function addReclaim(group: Command, go: Go): void {
  const named = 'its id or name; needed where there is more than one';
  group
    .command('reclaim')
    .description('take it back: those who run something there are told, given grace, and stopped')
    .argument('[machine]', named)
    .addOption(new Option('--now', 'without grace').conflicts(['at', 'in', 'whenActive', 'grace']))
    .addOption(
      new Option('--at <time>', 'from then on: 18:00, 2026-01-31T18:00Z').conflicts([
        'in',
        'whenActive',
      ]),
    )
    .addOption(
      new Option('--in <time>', 'in so long: 30m, 2h')
        .argParser(parseDuration)
        .conflicts('whenActive'),
    )
    .option('--when-active', "whenever the machine's guard sees that you use it")
    .option('--grace <time>', 'what they are given before they are stopped (5m)', parseDuration)
    .option('--until <time>', 'released by then: 22:00, 2026-01-31T22:00Z, 3h; else by release')
    .addOption(new Option('--guests-only', 'your own workloads stay (the default)'))
    .addOption(new Option('--all', 'your own workloads too').conflicts('guestsOnly'))
    .option('--json', json_text)
    .action(
      go(async (context, name: string | undefined, options) =>
        (await import('../reclaim.ts')).reclaim(context, name, options),
      ),
    );
  group
    .command('release')
    .description('let it go again: what was stopped for it goes on')
    .argument('[machine]', named)
    .option('--json', json_text)
    .action(
      go(async (context, name: string | undefined, options) =>
        (await import('../reclaim.ts')).release(context, name, options),
      ),
    );
}
