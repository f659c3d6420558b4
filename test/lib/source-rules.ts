/**
 * The rules for one source file that neither the compiler nor the linter holds.
 *
 * Invariants: each rule is a pure function of one source; a problem names file, line and rule.
 * Words that a rule looks for are put together from pieces, so that no rule finds itself.
 */
import { importProblem, layerOf } from './layers.ts';
import { functionsOf, importsOf } from './source-facts.ts';
import { lineAt, type Source } from './source-tree.ts';

export type Problem = { path: string; line: number; problem: string };

export const file_lines = 400;
export const function_lines = 70;
export const columns = 100;

const exclusive_imports: Record<string, readonly string[]> = {
  'node:sqlite': [
    'src/store/sqlite.ts',
    'src/store/sqlite-worker.ts',
    'bench/store-bare-worker.ts', // what the store is measured against
    'bench/admit-bare-worker.ts', // and what launches are
  ],
  pg: ['src/store/postgres.ts', 'bench/store-bare-postgres.ts'],
  'node:child_process': ['src/lib/exec.ts'],
};
const clocks = ['src/lib/clock.ts', 'src/lib/random.ts'];
const exclusive_words: { pattern: RegExp; what: string; only: readonly string[] }[] = [
  { pattern: /\bprocess\.env\b/g, what: 'the environment', only: ['src/cli/config.ts'] },
  { pattern: /\bDate\.now\b|\bnew Date\(\)|\bperformance\.now\b/g, what: 'the time', only: clocks },
  {
    pattern: /(?<![.\w])set(?:Timeout|Interval)\(|['"]node:timers/g,
    what: 'a timer',
    only: clocks,
  },
  { pattern: /\bMath\.random\b/g, what: 'chance', only: clocks },
];
/** Who may write a workload's state: one file moves it, one gives it its first. */
const state_writers: { sql: RegExp; only: string }[] = [
  { sql: /\bupdate\s+workloads\s+set\b[\s\S]*\bstate\s*=/i, only: 'src/store/moves.ts' },
  { sql: /\binsert\s+into\s+workloads\b/i, only: 'src/store/workloads.ts' },
];

/** Default exports that a tool demands. */
const default_exports: readonly string[] = ['web/vite.config.ts'];

export function problemsOf(source: Source): Problem[] {
  return [
    ...imports(source),
    ...words(source),
    ...stateSql(source),
    ...sizes(source),
    ...language(source),
    ...comments(source),
  ];
}

function imports(source: Source): Problem[] {
  return importsOf(source).flatMap((one) => {
    const owners = exclusive_imports[one.target];
    const problem =
      owners !== undefined && !owners.includes(source.path)
        ? `${one.target} only in ${owners.join(' and ')}`
        : importProblem(source.path, one);
    return problem === null ? [] : [{ path: source.path, line: one.line, problem }];
  });
}

/** Only the program is bound: tests, benches and scripts meet the real clock and environment. */
function words(source: Source): Problem[] {
  if (layerOf(source.path) === null || source.path.startsWith('web/')) return [];
  return exclusive_words.flatMap(({ pattern, what, only }) =>
    only.includes(source.path)
      ? []
      : matches(source, pattern, `${what} only in ${only.join(', ')}`),
  );
}

function stateSql(source: Source): Problem[] {
  if (!source.path.startsWith('src/')) return [];
  return state_writers.flatMap(({ sql, only }) =>
    source.strings
      .filter((literal) => source.path !== only && sql.test(setPart(literal.value)))
      .map((literal) => ({
        path: source.path,
        line: lineAt(source.text, literal.start),
        problem: `a workload's state is set only in ${only}`,
      })),
  );
}

/** What stands between `set` and `where`: a state in the condition is no write. */
function setPart(sql: string): string {
  return sql.replace(/\bwhere\b[\s\S]*/i, '');
}

function sizes(source: Source): Problem[] {
  const { path } = source;
  const lines = source.text.replace(/\n$/, '').split('\n');
  const long = lines.flatMap((line, index) =>
    [...line].length > columns && !unbreakable(line)
      ? [{ path, line: index + 1, problem: `${[...line].length} columns, ${columns} at most` }]
      : [],
  );
  const functions = functionsOf(source)
    // A describe block is a list of tests, each a function of its own that is counted.
    .filter((one) => !/^(?:describe|onEveryStore)$/.test(one.name) && one.lines > function_lines)
    .map((one) => ({
      path,
      line: one.line,
      problem: `${one.name} has ${one.lines} lines, ${function_lines} at most`,
    }));
  const file =
    lines.length > file_lines
      ? [{ path, line: 1, problem: `${lines.length} lines, ${file_lines} at most` }]
      : [];
  return [...long, ...functions, ...file];
}

/** One string, expression or lint note that the formatter will not break. */
function unbreakable(line: string): boolean {
  if (/^\s*test\([`'].*[`'], .*\{$/.test(line)) return true; // its name is a sentence
  return /^\s*(?:\/\/ biome-ignore |[\w.]*[:(]?\s*[`'"/].*[`'"/][gimsu]*[,;)]*$)/.test(line);
}

function language(source: Source): Problem[] {
  const defaults = default_exports.includes(source.path)
    ? []
    : matches(source, /^export default\b|\bas default\b/gm, 'no default exports');
  return [
    ...defaults,
    ...matches(source, /(?:[:<|&,]|=>|\bas|\bextends)\s*any\b(?!\s*[(:.?])/g, 'no any'),
    ...matches(source, /[\w$)\]]!(?=[.,;)\]}[]|$)/gm, 'no non-null assertions'),
    ...matches(source, /^\s*(?:export\s+)?(?:declare\s+)?(?:const\s+)?enum\s+\w/gm, 'no enums'),
    ...matches(source, /^\s*(?:export\s+)?(?:declare\s+)?namespace\s+\w/gm, 'no namespaces'),
  ];
}

const unfinished = new RegExp(`\\b(?:${['TO' + 'DO', 'FIX' + 'ME', 'X' + 'XX'].join('|')})\\b`);

function comments(source: Source): Problem[] {
  const notes = source.comments
    .filter((comment) => unfinished.test(comment.value))
    .map((comment) => ({
      path: source.path,
      line: lineAt(source.text, comment.start),
      problem: 'nothing is left to do in a comment: do it, or file it',
    }));
  const needs_opening = source.path.startsWith('src/') && !/\.test\.tsx?$/.test(source.path);
  return needs_opening && !source.text.startsWith('/**')
    ? [...notes, { path: source.path, line: 1, problem: 'a file opens by saying what it is' }]
    : notes;
}

function matches(source: Source, pattern: RegExp, problem: string): Problem[] {
  return [...source.code.matchAll(pattern)].map((match) => ({
    path: source.path,
    line: lineAt(source.text, match.index + match[0].length - match[0].trimStart().length),
    problem,
  }));
}
