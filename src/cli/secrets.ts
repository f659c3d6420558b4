/**
 * `einsora secrets`: what workloads may need and nobody reads back, such as a hub's token.
 *
 * Invariants: a value comes from stdin or from a prompt without echo, never from arguments.
 */
import type { SecretEntry } from '../contract/secrets.ts';
import { formatAgo } from '../core/format.ts';
import { askSecret } from './ask-secret.ts';
import { suggested, usageError } from './cli-error.ts';
import { openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { printJson, printTable, say } from './output.ts';

type JsonOption = { json?: boolean };

const pathOf = (name: string) => `/v1/secrets/${encodeURIComponent(name)}`;

export async function setSecret(
  context: Context,
  name: string,
  options: JsonOption,
): Promise<number> {
  const client = openClient(context);
  const value = (await askSecret(context, `Value of ${name} (it is not shown): `)).reveal();
  if (value === '')
    throw usageError('an empty value is no secret', `bin/einsora secrets set ${name}`);
  const body = { value };
  const secret = await client.call<Omit<SecretEntry, 'updated_by'>>('PUT', pathOf(name), { body });
  if (options.json) printJson(context, secret);
  else say(context, `${secret.name} is sealed. Nobody can read it back.`);
  return exitCode('ok');
}

export async function listSecrets(context: Context, options: JsonOption): Promise<number> {
  const { items } = await openClient(context).call<{ items: SecretEntry[] }>('GET', '/v1/secrets');
  if (options.json) printJson(context, { items });
  else if (items.length === 0) {
    say(context, `No secrets yet. Try: ${suggested(context.config, 'secrets set hf-token')}`);
  } else {
    const now = context.io.clock.now();
    const rows = items.map(({ name, updated_at, updated_by }) => [
      name,
      formatAgo(now - updated_at),
      updated_by,
    ]);
    printTable(context, ['NAME', 'SET', 'BY'], rows);
  }
  return exitCode('ok');
}

export async function removeSecret(
  context: Context,
  name: string,
  options: JsonOption,
): Promise<number> {
  await openClient(context).call<null>('DELETE', pathOf(name));
  if (options.json) printJson(context, { name, removed: true });
  else say(context, `${name} is gone.`);
  return exitCode('ok');
}
