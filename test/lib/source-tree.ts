/**
 * The repository's own sources, as the architecture test reads them: files, and their text with
 * comments and strings told apart.
 *
 * Invariants: positions and line numbers stay those of the file, whatever is blanked out. The
 * scanner knows comments, strings, templates and regular expressions of formatted TypeScript; it
 * does not know JSX text, where a lone quote may blank the rest of its line.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { extname, join } from 'node:path';

export type Literal = { start: number; value: string };

export type Source = {
  /** Relative to the repository, with forward slashes. */
  path: string;
  text: string;
  /** The text with the insides of strings and all of comments replaced by spaces. */
  code: string;
  strings: Literal[];
  comments: Literal[];
};

const left_out = new Set(['node_modules', '.git', '.cache', 'dist', 'package-lock.json']);
const code_folders = /^(src|test|bench|scripts|web)\//;
const text_kinds = new Set(['.ts', '.tsx', '.md', '.json', '.sh', '.sql', '.css', '.html', '.yml']);

/** Every text file of the repository that people write. */
export function listTexts(root: string): { path: string; text: string }[] {
  return walk(root, '')
    .filter((path) => text_kinds.has(extname(path)) || /^(bin|\.ci)\//.test(path))
    .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }));
}

/** Every TypeScript file of the program, its tests, benches and scripts. */
export function listSources(root: string): Source[] {
  return listTexts(root)
    .filter(({ path }) => code_folders.test(path) && /\.tsx?$/.test(path))
    .map(({ path, text }) => readSource(path, text));
}

function walk(root: string, folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true })
    .filter((entry) => !left_out.has(entry.name))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
      if (entry.isDirectory()) return walk(root, path);
      return entry.isFile() ? [path] : [];
    });
}

export function readSource(path: string, text: string): Source {
  const scan: Scan = { text, at: 0, code: [...text], strings: [], comments: [] };
  scanCode(scan, false);
  const { code, strings, comments } = scan;
  return { path, text, code: code.join(''), strings, comments };
}

type Scan = Omit<Source, 'path' | 'code'> & { at: number; code: string[] };

/** Reads code to the end, or inside a template to the brace that closes its expression. */
function scanCode(scan: Scan, in_template: boolean): void {
  let depth = 0;
  while (scan.at < scan.text.length) {
    const two = scan.text.slice(scan.at, scan.at + 2);
    const one = two[0] ?? '';
    if (two === '//') skipComment(scan, '\n', 0);
    else if (two === '/*') skipComment(scan, '*/', 2);
    else if (one === "'" || one === '"') skipUntil(scan, one, scan.strings);
    else if (one === '`') scanTemplate(scan);
    else if (one === '/' && startsRegex(scan)) skipRegex(scan);
    else {
      if (one === '{') depth += 1;
      if (one === '}') depth -= 1;
      if (in_template && depth < 0) return;
      scan.at += 1;
    }
  }
}

function scanTemplate(scan: Scan): void {
  const start = scan.at;
  let from = ++scan.at;
  let value = '';
  while (scan.at < scan.text.length && scan.text[scan.at] !== '`') {
    if (scan.text[scan.at] === '\\') scan.at += 2;
    else if (scan.text.startsWith('${', scan.at)) {
      value += blank(scan, from, scan.at);
      scan.at += 2;
      scanCode(scan, true);
      from = ++scan.at;
    } else scan.at += 1;
  }
  value += blank(scan, from, scan.at);
  scan.at += 1;
  scan.strings.push({ start, value });
}

function skipComment(scan: Scan, end: string, beyond: number): void {
  const found = scan.text.indexOf(end, scan.at + 2);
  const stop = found < 0 ? scan.text.length : found + beyond;
  scan.comments.push({ start: scan.at, value: blank(scan, scan.at, stop) });
  scan.at = stop;
}

function skipUntil(scan: Scan, quote: string, into: Literal[]): void {
  const start = scan.at++;
  while (scan.at < scan.text.length && scan.text[scan.at] !== quote) {
    if (scan.text[scan.at] === '\n') break;
    scan.at += scan.text[scan.at] === '\\' ? 2 : 1;
  }
  into.push({ start, value: blank(scan, start + 1, scan.at) });
  scan.at += 1;
}

function skipRegex(scan: Scan): void {
  let in_set = false;
  const start = scan.at++;
  for (; scan.at < scan.text.length; scan.at += 1) {
    const char = scan.text[scan.at];
    if (char === '\n' || (char === '/' && !in_set)) break;
    if (char === '\\') scan.at += 1;
    if (char === '[') in_set = true;
    if (char === ']') in_set = false;
  }
  blank(scan, start + 1, scan.at);
  scan.at += 1;
}

/** A slash divides after a value, and opens a regular expression anywhere else. */
function startsRegex(scan: Scan): boolean {
  const before = scan.code
    .slice(Math.max(0, scan.at - 40), scan.at)
    .join('')
    .trimEnd();
  if (/\b(return|case|typeof|in|of|await)$/.test(before)) return true;
  return !/[\w$)\]}'"`]$/.test(before);
}

function blank(scan: Scan, from: number, to: number): string {
  for (let at = from; at < Math.min(to, scan.code.length); at += 1) {
    if (scan.code[at] !== '\n') scan.code[at] = ' ';
  }
  return scan.text.slice(from, to);
}

/** The line of a position, counted from 1. */
export function lineAt(text: string, position: number): number {
  return text.slice(0, position).split('\n').length;
}
