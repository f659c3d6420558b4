/**
 * Rows of parameters behind `values`: many rows by one statement.
 */

/** `number`: cast, for in a row that is no column's the engine does not know what it is. */
export type ValueColumn = 'as it is' | 'number';

/** `($1, cast($2 as bigint)), ($3, cast($4 as bigint))` for two rows of two columns. */
export function valueRows(count: number, columns: readonly ValueColumn[]): string {
  const rows = Array.from({ length: count }, (_, row) => {
    const places = columns.map((column, index) => {
      const place = `$${row * columns.length + index + 1}`;
      return column === 'number' ? `cast(${place} as bigint)` : place;
    });
    return `(${places.join(', ')})`;
  });
  return rows.join(', ');
}
