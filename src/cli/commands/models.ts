/**
 * The commands about models that machines keep.
 */
import type { Command } from 'commander';
import { type Go, json_text } from './go.ts';

export function addModels(program: Command, go: Go): void {
  const group = program.command('models').description('models that the machines keep');
  group
    .command('ls')
    .description('which, how large, from where, and what runs from them')
    .option('--json', json_text)
    .action(
      go(async (context, options) => (await import('../models.ts')).listModels(context, options)),
    );
  group
    .command('pull')
    .description('fetch a model before it is needed')
    .argument('<model>', 'hf://owner/repo[:quantization], https://…/file.gguf, or of the catalog')
    .option('--machine <machine>', 'where to; needed where you own more than one')
    .option('--detach', 'leave once it is recorded')
    .option('--json', json_text)
    .action(
      go(async (context, model: string, options) =>
        (await import('../models.ts')).pullModel(context, model, options),
      ),
    );
  group
    .command('rm')
    .description('remove models, and what had come of them')
    .argument('<model...>', 'id, source, or name of the file')
    .option('--json', json_text)
    .action(
      go(async (context, names: string[], options) =>
        (await import('../models.ts')).removeModels(context, names, options),
      ),
    );
  group
    .command('validate')
    .description('whether an engine may be given a file or folder here, or a model of a machine')
    .argument('<model...>', 'a path, or id, source or file name of a model')
    .option('--json', json_text)
    .action(
      go(async (context, names: string[], options) =>
        (await import('../models-validate.ts')).validate(context, names, options),
      ),
    );
}
