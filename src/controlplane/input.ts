/**
 * What a request says, checked against its route: query, parameters, headers, body, in one step.
 *
 * Invariants: a handler gets what the route's schemas made of it (`c.req.valid`), and nothing
 * else; the first thing that does not fit is told; a body is JSON, and said to be. In place of the
 * framework's validators: those wait for each schema, which zod then takes apart anew each time,
 * and they copy all headers for the one that is asked for.
 */
import type { z } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { EinsoraError } from '../contract/errors.ts';
import type { ApiEnv } from './api.ts';

type Target = 'query' | 'param' | 'header' | 'json';
/** Of one target: what the request says there, and what it has to be. */
type Check = {
  target: Target;
  schema: z.ZodType;
  read: (c: Context<ApiEnv>, text: string) => unknown;
};

/** The schemas of a route; a body of another type than JSON is its handler's to read. */
type RouteInput = {
  method: string;
  request?: {
    query?: unknown;
    params?: unknown;
    headers?: unknown;
    body?: { content: Partial<Record<string, { schema?: unknown }>> };
  };
};

export function checksOf({ request = {} }: RouteInput): Check[] {
  const { query, params, headers, body } = request;
  const checks: Check[] = [];
  const add = (target: Target, schema: unknown, read: Check['read']) => {
    if (schema !== undefined) checks.push({ target, schema: schema as z.ZodType, read });
  };
  add('query', query, readQuery);
  add('param', params, (c) => c.req.param());
  const names = headers === undefined ? [] : Object.keys((headers as z.ZodObject).shape);
  add('header', headers, (c) => readHeaders(c, names));
  add('json', body?.content['application/json']?.schema, readJson);
  return checks;
}

/** Throws `bad_request` with the first thing that does not fit. `text`: the body. */
export function checkInput(c: Context<ApiEnv>, checks: readonly Check[], text: string): void {
  for (const { target, schema, read } of checks) {
    const result = schema.safeParse(read(c, text));
    if (!result.success) throw unfit(result.error);
    c.req.addValidatedData(target, result.data as object);
  }
}

/** The body of a request; empty where none is to be checked: a file's content is anything. */
export function textOf(c: Context<ApiEnv>): string | Promise<string> {
  const { method } = c.req;
  if (method === 'GET' || method === 'HEAD' || c.get('route') === 'writeFile') return '';
  const { body } = c.env.facts;
  return body === undefined ? c.req.text() : decoder.decode(body);
}

const decoder = new TextDecoder();

function readQuery(c: Context<ApiEnv>): unknown {
  const said = Object.entries(c.req.queries());
  return Object.fromEntries(said.map(([name, all]) => [name, all.length === 1 ? all[0] : all]));
}

function readHeaders(c: Context<ApiEnv>, names: readonly string[]): unknown {
  const said: Record<string, string> = {};
  for (const name of names) {
    const value = c.req.header(name);
    if (value !== undefined) said[name] = value;
  }
  return said;
}

const is_json = /^application\/([a-z.-]+\+)?json(;\s*[a-z0-9-]+=([^;]+))*$/i;

function readJson(c: Context<ApiEnv>, text: string): unknown {
  const type = c.req.header('content-type') ?? '';
  if (type === '' ? text !== '' : !is_json.test(type)) throw notJson();
  if (type === '') return {};
  try {
    return JSON.parse(text);
  } catch {
    throw notJson();
  }
}

function notJson(): EinsoraError {
  return new EinsoraError('bad_request', { problem: 'the body is not JSON, or not said to be' });
}

function unfit({ issues: [issue] }: z.ZodError): EinsoraError {
  const where = issue?.path.join('.') ?? '';
  const problem = `${where === '' ? '' : `${where}: `}${issue?.message ?? 'it does not fit'}`;
  return new EinsoraError('bad_request', { problem });
}
