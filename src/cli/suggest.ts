/**
 * Names near to one that does not exist.
 */

/** Up to three candidates, nearest first, that a typing error or a prefix explains. */
export function nearNames(wanted: string, candidates: readonly string[]): string[] {
  const limit = Math.max(1, Math.floor(wanted.length / 3));
  return candidates
    .map((name) => ({ name, distance: distanceTo(wanted, name) }))
    .filter(({ distance }) => distance <= limit)
    .sort((a, b) => a.distance - b.distance || (a.name < b.name ? -1 : 1))
    .slice(0, 3)
    .map(({ name }) => name);
}

/** To the whole name, or to a beginning of it, which counts a little more. */
function distanceTo(wanted: string, name: string): number {
  const beginnings = [-1, 0, 1].map((more) => name.slice(0, wanted.length + more));
  const nearest = Math.min(...beginnings.map((beginning) => editDistance(wanted, beginning)));
  return Math.min(editDistance(wanted, name), nearest + 0.5);
}

/** Insertions, deletions, replacements and swaps of neighbours between two short texts. */
export function editDistance(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > 3) return Number.POSITIVE_INFINITY;
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let row = 1; row <= a.length; row += 1) {
    const next = [row];
    for (let column = 1; column <= b.length; column += 1) {
      const same = a[row - 1] === b[column - 1];
      let best = Math.min(
        at(last, column) + 1,
        at(next, column - 1) + 1,
        at(last, column - 1) + (same ? 0 : 1),
      );
      const swapped = a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      if (row > 1 && column > 1 && swapped) best = Math.min(best, at(before, column - 2) + 1);
      next.push(best);
    }
    before = last;
    last = next;
  }
  return at(last, b.length);
}

function at(row: number[], index: number): number {
  return row[index] ?? Number.POSITIVE_INFINITY;
}
