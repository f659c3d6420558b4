/**
 * Refuses what holds a NUL character: no name of ours has one, and no store takes one.
 *
 * Invariants: looked for where every string of a request comes in, so that no handler has to; after
 * it is known who asks, so that a stranger learns nothing.
 */
import type { Context } from 'hono';
import { EinsoraError } from '../contract/errors.ts';
import type { ApiEnv } from './api.ts';

export async function refuseNul(c: Context<ApiEnv>): Promise<void> {
  if (/%00/.test(c.req.url)) throw refused('the path');
  if (c.req.method === 'GET' || c.req.method === 'HEAD') return;
  if (c.get('route') === 'writeFile') return; // the content of a file is anything
  const text = await c.req.text(); // kept by the request: whoever parses it takes it from there
  if (/\\u0000/.test(text) && holdsNul(text)) throw refused('the body');
}

/** Said by an escape, or only by the text of one (`\\u0000`)? */
function holdsNul(text: string): boolean {
  try {
    let found = false;
    JSON.parse(text, (key, value: unknown) => {
      found ||= key.includes('\0') || (typeof value === 'string' && value.includes('\0'));
      return null;
    });
    return found;
  } catch {
    return false; // no JSON: told so by whoever wants to read it
  }
}

function refused(where: string): EinsoraError {
  return new EinsoraError('bad_request', { problem: `${where} holds a NUL character` });
}
