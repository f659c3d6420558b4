/**
 * Asking a route of the contract for what a case says.
 */
import { type RouteName, routes } from '../../src/contract/routes.ts';
import { makeId } from '../../src/core/ids.ts';
import type { Body, Rig } from '../lib/rig.ts';
import type { Asked } from './cases.ts';

export type Told = { status: number; code: string | null; body: Body; request_id: string };

/** The status of a route's answer where nothing is in the way. */
export function successOf(name: RouteName): number {
  const codes = Object.keys(routes[name].responses).map(Number);
  const found = codes.find((code) => code >= 200 && code < 300);
  if (found === undefined) throw new Error(`${name} never succeeds`);
  return found;
}

export const isWrite = (name: RouteName) => routes[name].method !== 'get';

/** Sends it with these headers. A body without an end is left at once. */
export async function tell(
  rig: Rig,
  name: RouteName,
  asked: Asked,
  headers: Record<string, string>,
): Promise<Told> {
  const request_id = makeId(rig.clock.now(), rig.random.bytes(10));
  const facts = { request_id, log: rig.log.child({ request_id }) };
  const { method } = routes[name];
  const has_body = asked.body !== undefined;
  const request = new Request(`http://localhost:4600${pathOf(name, asked)}`, {
    method: method.toUpperCase(),
    headers: {
      ...headers,
      ...asked.headers,
      ...(has_body ? { 'content-type': 'application/json' } : {}),
    },
    ...(has_body ? { body: JSON.stringify(asked.body) } : {}),
  });
  const response = await rig.api.fetch(request, { facts });
  const type = response.headers.get('content-type') ?? '';
  if (type.startsWith('text/event-stream')) {
    await response.body?.cancel();
    return { status: response.status, code: null, body: {}, request_id };
  }
  const text = await response.text();
  const body = type.startsWith('application/json') ? (JSON.parse(text) as Body) : {};
  return { status: response.status, code: body.error?.code ?? null, body, request_id };
}

function pathOf(name: RouteName, { path = {}, query = {} }: Asked): string {
  const filled = routes[name].path.replace(/\{(\w+)\}/g, (_, part: string) => {
    const value = path[part];
    if (value === undefined) throw new Error(`the case of ${name} gives no ${part}`);
    return encodeURIComponent(value);
  });
  const search = new URLSearchParams(query).toString();
  return search === '' ? filled : `${filled}?${search}`;
}

/** The same question, for something that is not there. */
export function asNothing(asked: Asked): { asked: Asked; object: string } {
  const { object } = asked;
  if (object === undefined) throw new Error('nothing is named');
  const is_id = /^[0-9a-z]{26}$/.test(object);
  const nothing = is_id ? `${object.slice(0, 19)}zzzzzzz` : `no-${object}`.slice(0, 20);
  const text = JSON.stringify({ ...asked, object: nothing }).replaceAll(object, nothing);
  return { asked: JSON.parse(text) as Asked, object: nothing };
}

/** What an answer says, without the name it was asked for and the request's id. */
export function sameFor(told: Told, object: string): string {
  const { request_id: _, ...error } = told.body.error ?? { request_id: '' };
  return JSON.stringify([told.status, error]).replaceAll(object, '<name>');
}
