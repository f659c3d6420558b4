/**
 * `einsora keys`: keys for OpenAI clients, by the names of the models that each opens.
 *
 * Invariants: a key is printed once, alone on stdout, so that it can be piped into a vault.
 */
import type { ModelKey, NewModelKey } from '../contract/endpoint-sharing.ts';
import { formatAgo } from '../core/format.ts';
import { suggested, usageError } from './cli-error.ts';
import { openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { type LimitOptions, limitsOf, limitWords } from './limit-words.ts';
import { printData, printJson, printTable, say } from './output.ts';

type JsonOption = { json?: boolean };

export async function createKey(
  context: Context,
  options: JsonOption & LimitOptions & { model: string[]; expires?: number },
): Promise<number> {
  const { model: models, expires } = options;
  const limits = limitsOf(options);
  const body = {
    models,
    ...(expires === undefined ? {} : { expires_in_ms: expires }),
    ...(Object.keys(limits).length === 0 ? {} : { limits }),
  };
  const { call } = openClient(context);
  const made = await call<NewModelKey>('POST', '/v1/model-keys', { body, once: true });
  if (options.json) printJson(context, made);
  else {
    printData(context, made.key);
    const opened = made.models.join(', ');
    say(context, `It opens ${opened} and nothing else, and is not shown again.`);
    if (limitWords(made.limits) !== 'none') say(context, `  limits    ${limitWords(made.limits)}`);
    say(context, `  base_url  ${made.base_url}   model  ${opened}`);
    say(context, `  take it back: ${suggested(context.config, `keys revoke ${made.id}`)}`);
  }
  return exitCode('ok');
}

export async function listKeys(context: Context, options: JsonOption): Promise<number> {
  const { items } = await openClient(context).call<{ items: ModelKey[] }>('GET', '/v1/model-keys');
  if (options.json) printJson(context, { items });
  else if (items.length === 0) {
    say(context, `No keys. Try: ${suggested(context.config, 'keys create --model MODEL')}`);
  } else {
    const now = context.io.clock.now();
    const rows = items.map((key) => [
      key.id,
      key.models.join(' '),
      `…${key.last_four}`,
      formatAgo(now - key.created_at),
      key.last_used_at === null ? '–' : formatAgo(now - key.last_used_at),
      stateOf(key, now),
      limitWords(key.limits, key.use),
    ]);
    printTable(context, ['ID', 'MODELS', 'ENDS IN', 'MADE', 'USED', 'WORKS', 'OF LIMITS'], rows);
  }
  return exitCode('ok');
}

export async function limitKey(
  context: Context,
  id: string,
  options: JsonOption & LimitOptions,
): Promise<number> {
  const body = limitsOf(options);
  if (Object.keys(body).length === 0) {
    throw usageError('no limit is given', `bin/einsora keys limit ${id} --rpm 60 --tpm none`);
  }
  const path = `/v1/model-keys/${encodeURIComponent(id)}/limits`;
  const key = await openClient(context).call<ModelKey>('PUT', path, { body });
  if (options.json) printJson(context, key);
  else say(context, `${id} from its next request on: ${limitWords(key.limits)}`);
  return exitCode('ok');
}

export async function revokeKey(
  context: Context,
  id: string,
  options: JsonOption,
): Promise<number> {
  await openClient(context).call<null>('DELETE', `/v1/model-keys/${encodeURIComponent(id)}`);
  if (options.json) printJson(context, { id, revoked: true });
  else say(context, `${id} opens nothing any more.`);
  return exitCode('ok');
}

function stateOf({ revoked_at, expires_at }: ModelKey, now: number): string {
  if (revoked_at !== null) return 'no, revoked';
  if (expires_at !== null && expires_at <= now) return 'no, expired';
  return 'yes';
}
