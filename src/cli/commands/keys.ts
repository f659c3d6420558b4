/**
 * The commands about keys of models, and about limits on requests.
 */
import type { Command } from 'commander';
import { orNone, parseCount, parseDuration } from '../parse.ts';
import { collect, type Go, json_text } from './go.ts';

export function addKeys(program: Command, go: Go): void {
  const group = program.command('keys').description('keys by which OpenAI clients use models');
  group
    .command('ls')
    .description("your tenant's keys, and what each opens")
    .option('--json', json_text)
    .action(
      go(async (context, options) => (await import('../keys.ts')).listKeys(context, options)),
    );
  withLimits(
    group
      .command('create')
      .description('make a key for one or more models; it is shown once')
      .requiredOption(
        '--model <model>',
        'an endpoint of yours, or tenant/name of one open to you; may be repeated',
        collect,
      ),
  )
    .option(
      '--expires <time>',
      'for so long (90m, 30d); left out: until it is revoked',
      parseDuration,
    )
    .option('--json', json_text)
    .action(
      go(async (context, options) => (await import('../keys.ts')).createKey(context, options)),
    );
  withLimits(
    group
      .command('limit')
      .description('set limits of a key; `none` lifts one, what is not named stays')
      .argument('<id>', 'its id, as in keys ls'),
  )
    .option('--json', json_text)
    .action(
      go(async (context, id: string, options) =>
        (await import('../keys.ts')).limitKey(context, id, options),
      ),
    );
  group
    .command('revoke')
    .description('end a key; requests with it are refused from now on')
    .argument('<id>', 'its id, as in keys ls')
    .option('--json', json_text)
    .action(
      go(async (context, id: string, options) =>
        (await import('../keys.ts')).revokeKey(context, id, options),
      ),
    );
}

export function addLimits(program: Command, go: Go): void {
  const group = program
    .command('limits')
    .description('limits on requests: of users over all keys, of models over all who ask');
  group
    .command('show')
    .description('what is limited, and what is used of it now')
    .option('--tenant <tenant>', "another tenant's, for operators (id or slug)")
    .option('--json', json_text)
    .action(
      go(async (context, options) =>
        (await import('../request-limits.ts')).showLimits(context, options),
      ),
    );
  withLimits(
    group
      .command('set')
      .description('set limits; `none` lifts one, what is not named stays')
      .option('--user <user>', 'of this user, over all their keys')
      .option('--model <model>', 'of this endpoint of yours, over all who ask it'),
  )
    .option('--json', json_text)
    .action(
      go(async (context, options) =>
        (await import('../request-limits.ts')).setLimits(context, options),
      ),
    );
}

/** With the options of a limit on requests. */
function withLimits(command: Command): Command {
  return command
    .option('--rpm <count>', 'requests in any minute', orNone(parseCount))
    .option('--tpm <count>', 'tokens in any minute, prompts and answers', orNone(parseCount))
    .option('--concurrency <count>', 'requests at a time', orNone(parseCount));
}
