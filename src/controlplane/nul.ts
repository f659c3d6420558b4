/**
 * Refuses what holds a NUL character: no name of ours has one, and no store takes one.
 *
 * Invariants: looked for where every string of a request comes in, so that no handler has to; after
 * it is known who asks, so that a stranger learns nothing.
 */
import { EinsoraError } from '../contract/errors.ts';

/** `text`: the body. */
export function refuseNul(url: string, text: string): void {
  if (url.includes('%00')) throw refused('the path');
  if (text.includes('\\u0000') && holdsNul(text)) throw refused('the body');
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
