/**
 * Reads Prometheus' text format 0.0.4, and takes nothing that is not of it.
 */
import assert from 'node:assert/strict';

export type Sample = { name: string; labels: Record<string, string>; value: number };
export type ExposedFamily = { name: string; kind: string; help: string; samples: Sample[] };

const name_pattern = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const label_pattern = /^[a-zA-Z_][a-zA-Z0-9_]*$/;
const number_pattern = /^(?:[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?|[+-]Inf|NaN)$/;

export function parseExposition(text: string): Map<string, ExposedFamily> {
  assert.ok(text.endsWith('\n'), 'the last line has an end');
  const families = new Map<string, ExposedFamily>();
  let current: ExposedFamily | null = null;
  for (const line of text.slice(0, -1).split('\n')) {
    const help = /^# HELP (\S+) (.+)$/.exec(line);
    if (help?.[1] !== undefined) {
      assert.match(help[1], name_pattern);
      assert.ok(!families.has(help[1]), `${help[1]} comes twice`);
      current = { name: help[1], kind: '', help: help[2] ?? '', samples: [] };
      families.set(help[1], current);
      continue;
    }
    const type = /^# TYPE (\S+) (counter|gauge|histogram)$/.exec(line);
    if (type?.[2] !== undefined) {
      assert.equal(type[1], current?.name, 'TYPE follows its own HELP');
      assert.ok(current !== null && current.samples.length === 0);
      current.kind = type[2];
      continue;
    }
    assert.ok(current !== null && current.kind !== '', `${line} is of no family`);
    current.samples.push(parseSample(line, current));
  }
  for (const family of families.values()) checkFamily(family);
  return families;
}

function parseSample(line: string, family: ExposedFamily): Sample {
  const [, name = '', , inner = '', value = ''] =
    /^([^\s{]+)(\{(.*)\})? (\S+)$/s.exec(line) ?? assert.fail(`no sample: ${line}`);
  const suffixes = family.kind === 'histogram' ? ['_bucket', '_sum', '_count'] : [''];
  assert.ok(suffixes.map((suffix) => family.name + suffix).includes(name), `${name} is elsewhere`);
  assert.match(value, number_pattern);
  return { name, labels: parseLabels(inner), value: Number(value.replace('Inf', 'Infinity')) };
}

function parseLabels(text: string): Record<string, string> {
  const labels: Record<string, string> = {};
  let rest = text;
  while (rest !== '') {
    const [all, name = '', value = '', comma] =
      /^([^=]+)="((?:[^"\\\n]|\\[\\"n])*)"(,|$)/.exec(rest) ?? assert.fail(`no label: ${rest}`);
    assert.match(name, label_pattern);
    assert.ok(!(name in labels), `${name} comes twice`);
    labels[name] = value.replace(/\\(.)/g, (_, one: string) => (one === 'n' ? '\n' : one));
    rest = rest.slice(all.length);
    assert.ok(comma === '' || rest !== '', 'a comma stands between labels');
  }
  return labels;
}

function checkFamily({ name, kind, samples }: ExposedFamily): void {
  const keys = samples.map((sample) => JSON.stringify([sample.name, sample.labels]));
  assert.equal(new Set(keys).size, keys.length, `${name} has a series twice`);
  if (kind === 'counter') assert.match(name, /_total$/);
  if (kind !== 'histogram') return;
  const withoutBound = ({ labels: { le: _, ...rest } }: Sample) => JSON.stringify(rest);
  for (const [labels, own] of Map.groupBy(samples, withoutBound)) {
    const buckets = own.filter((sample) => sample.name === `${name}_bucket`);
    const count = own.find((sample) => sample.name === `${name}_count`);
    assert.ok(
      own.some((sample) => sample.name === `${name}_sum`),
      `${name}${labels} has a sum`,
    );
    assert.equal(buckets.at(-1)?.labels.le, '+Inf');
    assert.equal(buckets.at(-1)?.value, count?.value, `${name}${labels}: all are within +Inf`);
    const bounds = buckets.map(({ labels: { le = '' } }) => Number(le.replace('Inf', 'Infinity')));
    for (const [index, bound] of bounds.entries()) {
      const before = index === 0 ? Number.NEGATIVE_INFINITY : (bounds[index - 1] ?? 0);
      assert.ok(bound > before, `${name}: bounds rise`);
      const less = index === 0 ? 0 : (buckets[index - 1]?.value ?? 0);
      assert.ok((buckets[index]?.value ?? 0) >= less, `${name}: buckets sum up`);
    }
  }
}
