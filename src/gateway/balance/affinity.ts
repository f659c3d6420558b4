/**
 * Affinity: requests that begin alike go to the same replica, whose engine has that beginning in
 * its cache.
 *
 * Invariants: salted by tenant, so that nobody learns from where a prompt goes what another tenant
 * asked; a replica that comes or goes moves only what it wins or had (rendezvous hashing); nothing
 * is kept of a prompt but what is hashed for the moment of choosing.
 */
import { limits } from '../../contract/limits.ts';
import { digest } from '../../lib/secret.ts';

/** Of a request's fields; null where its prompt is too short to be worth it, or has no text. */
export function affinityOf(tenant_id: string, fields: Record<string, unknown>): string | null {
  const { messages, prompt, input } = fields;
  const text = beginningOf(messages ?? prompt ?? input, limits.affinity_chars);
  return text.length < limits.affinity_chars ? null : digest(`${tenant_id}\n${text}`);
}

/** How much a replica is for this affinity: the highest of all has it. */
export function affinityScore(affinity: string, replica: number): number {
  // The digest is uniform already; its first 32 bits, mixed with the replica, are enough.
  let mixed = Number.parseInt(affinity.slice(0, 8), 16) ^ Math.imul(replica + 1, 0x9e3779b1);
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}

/** The first characters of all text and tokens in it, in its order. */
function beginningOf(value: unknown, chars: number): string {
  let text = '';
  // An explicit stack: what a client nests deeply must not exhaust ours.
  const left: unknown[] = [value];
  while (left.length > 0 && text.length < chars) {
    const next = left.pop();
    if (typeof next === 'string') text += `${next.slice(0, chars)}\n`;
    else if (typeof next === 'number') text += `${next} `;
    else if (typeof next === 'object' && next !== null) left.push(...insideOf(next, chars));
  }
  return text.slice(0, chars);
}

/** What is first comes last: it is taken from the end. */
function insideOf(value: object, most: number): unknown[] {
  const all: unknown[] = Array.isArray(value) ? value : Object.values(value);
  return all.slice(0, most).reverse();
}
