/**
 * `einsora routes`: where the names of models lead, and how each replica stands.
 */
import type { ModelRoute, ModelRoutePage, ReplicaRoute } from '../contract/model-routes.ts';
import { formatAgo } from '../core/format.ts';
import { suggested } from './cli-error.ts';
import { openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { withQuery } from './newest.ts';
import { printJson, printTable, say } from './output.ts';

/** Pages read before the rest is left out. */
const page_limit = 25;

export async function routes(context: Context, options: { json?: boolean }): Promise<number> {
  const items = await readAll(context);
  if (options.json) printJson(context, { items });
  else if (items.length === 0) {
    say(
      context,
      `No endpoints. Try: ${suggested(context.config, 'launch endpoint --model MODEL')}`,
    );
  } else {
    const now = context.io.clock.now();
    const rows = items.flatMap((model) => linesOf(model, now));
    const where = ['MODEL', 'REPLICA', 'STATE', 'MACHINE', 'CLASS', 'REGION'];
    printTable(context, [...where, 'BUSY', 'PER MIN', 'LAST FAILURE'], rows);
  }
  return exitCode('ok');
}

async function readAll(context: Context): Promise<ModelRoute[]> {
  const { call } = openClient(context);
  const items: ModelRoute[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < page_limit; page += 1) {
    const read = await call<ModelRoutePage>('GET', withQuery('/v1/routes', { cursor }));
    items.push(...read.items);
    if (read.next_cursor === null) break;
    cursor = read.next_cursor;
  }
  return items;
}

function linesOf(route: ModelRoute, now: number): string[][] {
  const { state, aliases, routes: replicas } = route;
  const model = [route.model, ...aliases].join(' = ');
  if (replicas.length === 0) return [[model, '', state, '', '', '', '', '', '']];
  return replicas.map((one) => [
    ...[model, String(one.replica), stateOf(one, state), one.machine_name ?? ''],
    ...[one.placed_class, one.region, `${one.outstanding}/${one.slots}`],
    ...[String(one.requests_per_minute), failureOf(one, now)],
  ]);
}

/** What keeps requests from it comes first. */
function stateOf(one: ReplicaRoute, state: string): string {
  if (one.state === 'preparing') return state === 'running' ? 'preparing' : state;
  if (one.state === 'ending') return 'ending';
  if (one.breaker === 'open') return 'left alone';
  if (one.breaker === 'half_open') return 'on trial';
  if (one.suspect) return 'silent';
  return one.heard_of ? 'ready' : 'not heard of';
}

function failureOf({ last_failure }: ReplicaRoute, now: number): string {
  if (last_failure === null) return '';
  const { at, code, message } = last_failure;
  return `${formatAgo(now - at)}: ${message ?? code}`;
}
