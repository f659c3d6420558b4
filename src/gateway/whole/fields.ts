/**
 * What comes in pieces, put together again: the fields of deltas, as the engines' own answers have
 * them.
 *
 * Invariants: texts and lists grow, everything else is replaced by what comes later; null replaces
 * nothing; a field nobody knows is kept like any other. What is given is never changed. Names such
 * as `__proto__` are fields like others.
 */
export type Fields = Record<string, unknown>;

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Its prototype has nothing. An object with none at all would be a slow one. */
function Bare(this: Fields) {}
Bare.prototype = Object.freeze(Object.create(null));
const Empty = Bare as unknown as new () => Fields;

/** An object that inherits nothing: whatever an engine sends, only its own fields are there. */
export function emptyFields(): Fields {
  return new Empty();
}

/** Texts that are said once and whole; a second one is another, no next part. */
const whole_texts = new Set(['role', 'id', 'type', 'name', 'finish_reason']);

/** Adds what a delta says, but for one of its fields, to `into`, which is changed. */
export function addFields(into: Fields, delta: Fields, but?: string): void {
  for (const name of Object.keys(delta)) {
    if (name !== but) into[name] = added(name, into[name], delta[name]);
  }
}

function added(name: string, before: unknown, next: unknown): unknown {
  if (next === null || next === undefined) return before === undefined ? null : before;
  if (typeof next === 'string') {
    return typeof before === 'string' && !whole_texts.has(name) ? before + next : next;
  }
  if (Array.isArray(next)) return addedItems(Array.isArray(before) ? before : [], next);
  if (!isFields(next)) return next;
  const into = isFields(before) ? before : emptyFields();
  addFields(into, next);
  return into;
}

/** Items with an `index` are parts of the one with that index; others are items of their own. */
function addedItems(before: unknown[], next: readonly unknown[]): unknown[] {
  for (const item of next) {
    const known = isFields(item) && typeof item.index === 'number' ? item.index : null;
    const part = known === null ? undefined : before.find((one) => indexOf(one) === known);
    if (isFields(part) && isFields(item)) addFields(part, item);
    else before.push(added('', undefined, item));
  }
  return before;
}

function indexOf(item: unknown): unknown {
  return isFields(item) ? item.index : undefined;
}
