/**
 * How far a machine is given back to its owner by its own guard, in words.
 */
import type { Machine } from '../contract/machines.ts';
import { guardPhrase } from '../core/guard.ts';

const guests = [
  null,
  'guests get nothing new',
  'guests get nothing new, and little CPU',
  'what guests run without a GPU stands still',
  'guests are asked to go',
  'guests go at once',
] as const;

/** "guests get nothing new: it is in use by its owner"; null where it is free. */
export function guardText({ guard }: Pick<Machine, 'guard'>): string | null {
  if (guard === undefined) return null;
  const [own] = guard.own_why;
  const [why] = guard.why;
  const told = guests[guard.level] ?? null;
  const lines = [
    own === undefined ? null : `nothing new starts: ${guardPhrase(own)}`,
    told === null || why === undefined ? null : `${told}: ${guardPhrase(why)}`,
  ].filter((one) => one !== null);
  return lines.length === 0 ? null : lines.join('; ');
}

/** One or two words beside "online". */
export function guardMark({ guard }: Pick<Machine, 'guard'>): string {
  if (guard === undefined) return '';
  if (guard.own_why.includes('owner_paused')) return ', paused';
  return guard.own_why.length > 0 ? ', starts nothing' : '';
}
