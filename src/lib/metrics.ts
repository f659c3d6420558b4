/**
 * Metrics in memory, and as text for Prometheus (format 0.0.4).
 *
 * Invariants: each family has one name, one kind and the labels it was made with; at most
 * `most_series` of them: what is beyond counts under `other`, for values of labels may come from
 * outside; counting never throws.
 */

export type Reading = { labels?: Readonly<Record<string, string>>; value: number };
/** `values` are of its labels, in their order. `at`: for who counts under the same ones often. */
export type Counter = {
  add(values: readonly string[], amount?: number): void;
  at(values: readonly string[]): (amount: number) => void;
};
export type Histogram = {
  observe(values: readonly string[], value: number): void;
  at(values: readonly string[]): (value: number) => void;
};

export type Metrics = {
  counter(name: string, help: string, labels: readonly string[]): Counter;
  /** `bounds` rise; one more bucket is for all above. */
  histogram(about: HistogramAbout): Histogram;
  /** Asked at each reading. */
  read(kind: 'gauge' | 'counter', name: string, help: string, ask: () => Reading[]): void;
  text(): string;
};

export type HistogramAbout = {
  name: string;
  help: string;
  labels: readonly string[];
  bounds: readonly number[];
};

type Family = { name: string; help: string; kind: string; lines(): string[] };

export function createMetrics(most_series: number): Metrics {
  const families: Family[] = [];
  return {
    counter(name, help, labels) {
      const series = createSeries(labels, most_series, () => ({ value: 0 }));
      const lines = () =>
        series.all().map(([text, { value }]) => `${name}${braces(text)} ${figure(value)}`);
      families.push({ name, help, kind: 'counter', lines });
      const add = (one: { value: number }, amount: number) => {
        one.value += amount;
      };
      return {
        add: (values, amount = 1) => add(series.of(values), amount),
        at: (values) => countAt(series, values, add),
      };
    },
    histogram({ name, help, labels, bounds }) {
      const fresh = () => ({ counts: new Array<number>(bounds.length + 1).fill(0), sum: 0 });
      const series = createSeries(labels, most_series, fresh);
      const lines = () =>
        series.all().flatMap(([text, one]) => histogramLines(name, text, one, bounds));
      families.push({ name, help, kind: 'histogram', lines });
      const observe = (one: ReturnType<typeof fresh>, value: number) => {
        let bucket = 0;
        while (bucket < bounds.length && !(value <= (bounds[bucket] ?? 0))) bucket += 1;
        one.counts[bucket] = (one.counts[bucket] ?? 0) + 1;
        one.sum += value;
      };
      return {
        observe: (values, value) => observe(series.of(values), value),
        at: (values) => countAt(series, values, observe),
      };
    },
    read(kind, name, help, ask) {
      const lines = () =>
        ask().map(({ labels = {}, value }) => {
          const text = labelText(Object.keys(labels), Object.values(labels));
          return `${name}${braces(text)} ${figure(value)}`;
        });
      families.push({ name, help, kind, lines });
    },
    text() {
      const parts = families.map(({ name, help, kind, lines }) =>
        [`# HELP ${name} ${escapeHelp(help)}`, `# TYPE ${name} ${kind}`, ...lines()].join('\n'),
      );
      return `${parts.join('\n')}\n`;
    },
  };
}

type Series<One> = { of(values: readonly string[]): One; all(): [labels: string, one: One][] };

/** Looked up at the first counting: before it, there is no such series. */
function countAt<One>(
  series: Series<One>,
  values: readonly string[],
  count: (one: One, amount: number) => void,
): (amount: number) => void {
  let one: One | null = null;
  return (amount) => {
    one ??= series.of(values);
    count(one, amount);
  };
}

function createSeries<One>(labels: readonly string[], most: number, fresh: () => One): Series<One> {
  const known = new Map<string, { text: string; one: One }>();
  const find = (values: readonly string[]) => known.get(JSON.stringify(values))?.one;
  const put = (values: readonly string[]) => {
    const one = fresh();
    known.set(JSON.stringify(values), { text: labelText(labels, values), one });
    return one;
  };
  const others = labels.map(() => 'other');
  return {
    of(values) {
      const found = find(values);
      if (found !== undefined) return found;
      return known.size < most ? put(values) : (find(others) ?? put(others));
    },
    all: () => [...known.values()].map(({ text, one }) => [text, one]),
  };
}

function histogramLines(
  name: string,
  labels: string,
  { counts, sum }: { counts: readonly number[]; sum: number },
  bounds: readonly number[],
): string[] {
  let count = 0;
  const buckets = counts.map((one, index) => {
    count += one;
    const le = `le="${index < bounds.length ? figure(bounds[index] ?? 0) : '+Inf'}"`;
    return `${name}_bucket${braces(labels === '' ? le : `${labels},${le}`)} ${count}`;
  });
  return [
    ...buckets,
    `${name}_sum${braces(labels)} ${figure(sum)}`,
    `${name}_count${braces(labels)} ${count}`,
  ];
}

function labelText(names: readonly string[], values: readonly string[]): string {
  return names.map((name, index) => `${name}="${escapeValue(values[index] ?? '')}"`).join(',');
}

function braces(labels: string): string {
  return labels === '' ? '' : `{${labels}}`;
}

function escapeValue(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}

function escapeHelp(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
}

/** As Prometheus reads numbers. */
function figure(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return '+Inf';
  return value === Number.NEGATIVE_INFINITY ? '-Inf' : String(value);
}
