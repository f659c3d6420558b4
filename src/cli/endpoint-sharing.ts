/**
 * `einsora endpoint`: opening an endpoint of one's own to others for prompts and nothing else, and
 * what others opened (ADR-0058).
 *
 * Invariants: what a guest can and cannot do is said when it is opened, not afterwards.
 */
import type { EndpointSharing, OpenModel } from '../contract/endpoint-sharing.ts';
import { suggested, usageError } from './cli-error.ts';
import { openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { printJson, printTable, say } from './output.ts';

type JsonOption = { json?: boolean };
export type ShareOptions = JsonOption & {
  invite?: string[];
  /** The same as `invite`. */
  to?: string[];
  community?: boolean;
};
export type UnshareOptions = JsonOption & { from?: string[]; community?: boolean; all?: boolean };

const pathOf = (name: string) => `/v1/workloads/${encodeURIComponent(name)}/sharing`;

/** Without options it only shows to whom the endpoint is open. */
export async function shareEndpoint(
  context: Context,
  name: string,
  options: ShareOptions,
): Promise<number> {
  const { to = [], community } = options;
  const invite = [...(options.invite ?? []), ...to];
  const { call } = openClient(context);
  const body = { invite, ...(community ? { community: true } : {}) };
  const is_change = invite.length > 0 || community === true;
  const now = is_change
    ? await call<EndpointSharing>('PUT', pathOf(name), { body })
    : await call<EndpointSharing>('GET', pathOf(name));
  if (options.json) printJson(context, now);
  else tell(context, name, now);
  return exitCode('ok');
}

export async function unshareEndpoint(
  context: Context,
  name: string,
  options: UnshareOptions,
): Promise<number> {
  const { call } = openClient(context);
  const { from = [], community, all } = options;
  if (from.length === 0 && !community && !all) {
    throw usageError('from whom? Give --from TENANT, --community or --all');
  }
  const invited = all ? (await call<EndpointSharing>('GET', pathOf(name))).invited : from;
  const body = { uninvite: invited, ...(community || all ? { community: false } : {}) };
  const now = await call<EndpointSharing>('PUT', pathOf(name), { body });
  if (options.json) printJson(context, now);
  else tell(context, name, now);
  return exitCode('ok');
}

/** Endpoints of others that take prompts of one's tenant. */
export async function listOpen(context: Context, options: JsonOption): Promise<number> {
  const { items } = await openClient(context).call<{ items: OpenModel[] }>(
    'GET',
    '/v1/open-models',
  );
  if (options.json) printJson(context, { items });
  else if (items.length === 0) say(context, 'No endpoint of others is open to your tenant.');
  else {
    printTable(
      context,
      ['MODEL', 'OWNER'],
      items.map(({ model, owner }) => [model, owner]),
    );
    const [first] = items;
    say(context, `Use one: ${suggested(context.config, `keys create --model ${first?.model}`)}`);
  }
  return exitCode('ok');
}

function tell(context: Context, name: string, { model, community, invited }: EndpointSharing) {
  if (!community && invited.length === 0) {
    say(context, `${name} is open to nobody but your tenant.`);
    return;
  }
  const everybody = community ? ['every tenant that its machine is shared with'] : [];
  say(context, `${name} takes prompts of ${[...everybody, ...invited].join(', ')}.`);
  say(context, 'They see its name and its class, no machine, no logs, no files; you and the');
  say(context, 'owner of its machine can read their prompts and answers in its memory.');
  say(context, `They use it so: ${suggested(context.config, `keys create --model ${model}`)}`);
}
