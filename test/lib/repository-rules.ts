/**
 * The rules for the repository as a whole: documents, dependencies, registries, words.
 *
 * Invariants: pure functions of texts; the words that must not stand anywhere are put together from
 * pieces, so that this file is clean of them too.
 */
import type { Problem } from './source-rules.ts';
import { lineAt } from './source-tree.ts';

export type Text = { path: string; text: string };

const dotted = (...parts: string[]) => parts.join('.').replaceAll('.', '\\.');
const slashed = (name: string) => `(?<![\\w.~-])/${name}/`;
const unwanted: { pattern: RegExp; what: string }[] = [
  { pattern: new RegExp(slashed('ro' + 'ot'), 'g'), what: 'a path of one machine' },
  { pattern: new RegExp(slashed('wo' + 'rk'), 'g'), what: 'a path of one machine' },
  {
    pattern: new RegExp(
      [
        dotted('registry', 'npmjs', 'org'),
        dotted('registry', 'yarnpkg', 'com'),
        dotted('pypi', 'org'),
        dotted('files', 'pythonhosted', 'org'),
        dotted('deb', 'debian', 'org'),
      ].join('|'),
      'gi',
    ),
    what: "a registry's host name: the user's own settings say where packages come from",
  },
  { pattern: /\bissues?\s+#?\d/gi, what: 'the number of a ticket' },
  {
    pattern: new RegExp(
      `\\b(?:${['cla' + 'ude', 'anth' + 'ropic', 'co' + 'pilot'].join('|')})\\b`,
      'gi',
    ),
    what: 'the name of a tool that no reader has',
  },
];

export function unwantedWords({ path, text }: Text): Problem[] {
  return unwanted.flatMap(({ pattern, what }) =>
    [...text.matchAll(pattern)].map((match) => ({
      path,
      line: lineAt(text, match.index),
      problem: what,
    })),
  );
}

type Manifest = Record<string, Record<string, string> | undefined>;

/** Every dependency, with its version. */
export function dependenciesOf(package_json: string): { name: string; version: string }[] {
  const manifest = JSON.parse(package_json) as Manifest;
  return ['dependencies', 'devDependencies', 'optionalDependencies'].flatMap((group) =>
    Object.entries(manifest[group] ?? {}).map(([name, version]) => ({ name, version })),
  );
}

/**
 * Each dependency is pinned, and has its line (what for, licence, size, what else) in the document.
 */
export function dependencyProblems(package_json: string, document: string): Problem[] {
  const path = 'docs/dependencies.md';
  return dependenciesOf(package_json).flatMap(({ name, version }) => {
    if (!/^\d+\.\d+\.\d+$/.test(version)) {
      return [{ path: 'package.json', line: 1, problem: `${name} is not pinned: ${version}` }];
    }
    const row = document.split('\n').find((line) => line.startsWith(`| \`${name}\` ${version} |`));
    if (row === undefined) return [{ path, line: 1, problem: `no line for ${name} ${version}` }];
    const cells = row.split('|').slice(1, -1);
    const full = cells.length === 5 && cells.every((cell) => cell.trim() !== '');
    return full ? [] : [{ path, line: 1, problem: `${name}: five filled cells are wanted` }];
  });
}

/** Numbers that stand for decisions without a record. */
const reserved_numbers = [2, 3, 4, 6, 8];

/** Records are numbered without gap or repetition, titled by their number, and listed. */
export function decisionProblems(texts: readonly Text[], list: string): Problem[] {
  const problems: Problem[] = [];
  const numbers: number[] = [];
  for (const { path, text } of texts) {
    const say = (problem: string) => problems.push({ path, line: 1, problem });
    const digits = /^docs\/adr\/(\d{4})-[a-z0-9-]+\.md$/.exec(path)?.[1];
    if (digits === undefined) {
      say('a record is named NNNN-kebab-case.md');
      continue;
    }
    const number = Number(digits);
    if (numbers.includes(number)) say(`number ${digits} is taken`);
    if (reserved_numbers.includes(number)) say(`number ${digits} is reserved`);
    numbers.push(number);
    if (!text.startsWith(`# ADR-${digits}: `)) say(`it opens with "# ADR-${digits}: "`);
    if (!list.includes(`(${path.split('/').at(-1)})`))
      say('it is not listed in docs/adr/README.md');
  }
  for (let number = 1; number < Math.max(0, ...numbers); number += 1) {
    if (numbers.includes(number) || reserved_numbers.includes(number)) continue;
    problems.push({ path: 'docs/adr', line: 1, problem: `number ${number} is missing` });
  }
  return problems;
}
