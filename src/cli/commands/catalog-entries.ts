/**
 * The commands about classes and images.
 */
import type { Command } from 'commander';
import { type Go, json_text } from './go.ts';

type Sort = 'class' | 'image';

export function addCatalogEntries(program: Command, go: Go): void {
  addGroup(program, go, 'class', 'classes', 'sizes to ask for: what each is, and what it weighs');
  addGroup(program, go, 'image', 'images', 'images to run notebooks, instances and engines in');
}

function addGroup(program: Command, go: Go, sort: Sort, name: string, text: string): void {
  const group = program.command(name).description(text);
  group
    .command('ls')
    .description(`all ${name}, retired ones too`)
    .option('--json', json_text)
    .action(
      go(async (context, options) =>
        (await import('../catalog-entries.ts')).listEntries(context, sort, options),
      ),
    );
  group
    .command('show')
    .description(`one of the ${name}`)
    .argument('<name>', `name of the ${sort}`)
    .option('--json', json_text)
    .action(
      go(async (context, entry: string, options) =>
        (await import('../catalog-entries.ts')).showEntry(context, sort, entry, options),
      ),
    );
  group
    .command('set')
    .description('add one, or replace what comes with Einsora (operators)')
    .argument('<name>', `name of the ${sort}`)
    .argument('<file>', 'JSON as show --json prints it; - for stdin')
    .option('--json', json_text)
    .action(
      go(async (context, entry: string, file: string, options) =>
        (await import('../catalog-entries.ts')).setEntry(context, sort, entry, file, options),
      ),
    );
  group
    .command('rm')
    .description('have it asked for no more; what runs by it goes on (operators)')
    .argument('<name>', `name of the ${sort}`)
    .option('--json', json_text)
    .action(
      go(async (context, entry: string, options) =>
        (await import('../catalog-entries.ts')).removeEntry(context, sort, entry, options),
      ),
    );
  group
    .command('reset')
    .description('have it as it comes with Einsora (operators)')
    .argument('<name>', `name of the ${sort}`)
    .option('--json', json_text)
    .action(
      go(async (context, entry: string, options) =>
        (await import('../catalog-entries.ts')).resetEntry(context, sort, entry, options),
      ),
    );
}
