/**
 * Figures of benches: medians, ratios of pairs, and the table for people.
 */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

export function rounded(value: number, digits = 3): number {
  const scale = 10 ** digits;
  return Math.round(value * scale) / scale;
}

export function printTable(keys: Record<string, unknown>): void {
  for (const [name, value] of Object.entries(keys)) {
    console.log(`${name.padEnd(28)}${typeof value === 'object' ? JSON.stringify(value) : value}`);
  }
}
