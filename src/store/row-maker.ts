/**
 * Rows as plain objects, out of arrays of values.
 *
 * Invariants: the keys are the names of the columns, in their order; what is absent is null. Each
 * list of names is compiled once, as a literal, in which they are quoted: an object that is filled
 * key by key loses its fast form after a dozen keys. Of forty-five, to make one took thirty times
 * as long, to copy it eight times.
 */
import type { Row } from './sql.ts';

export type ToRow = (values: readonly unknown[]) => Row;

/** For columns of these names. Lists of columns are of the program's own statements, so few. */
export function createRowMakers(): (names: readonly string[]) => ToRow {
  const makers = new Map<string, ToRow>();
  return (names) => {
    const fields = names.map((name, at) => `${JSON.stringify(name)}: values[${at}] ?? null`);
    const text = `return { ${fields.join(', ')} };`;
    const made = makers.get(text) ?? (new Function('values', text) as ToRow);
    makers.set(text, made);
    return made;
  };
}
