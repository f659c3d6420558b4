/**
 * Facts of one source file: what it imports, and how long its functions are.
 *
 * Invariants: works on code as Biome formats it. A function is seen by the line that opens its
 * body; one written on a single line, or a method whose parameters hold a type literal of several
 * lines, is not seen. An `import('...')` inside a type counts as a lazy import.
 */
import { posix } from 'node:path';
import { lineAt, type Source } from './source-tree.ts';

export type Import = {
  /** A path relative to the repository, or a package's or builtin's name. */
  target: string;
  how: 'static' | 'type' | 'lazy';
  line: number;
};

export type FunctionFact = { name: string; line: number; lines: number };

export function importsOf(source: Source): Import[] {
  const { code, strings, text } = source;
  const byPosition = new Map(strings.map((literal) => [literal.start, literal.value]));
  const found: Import[] = [];
  const add = (position: number, how: Import['how']) => {
    const target = byPosition.get(position);
    if (target === undefined) return;
    const local = target.startsWith('.');
    found.push({
      target: local ? posix.join(posix.dirname(source.path), target) : target,
      how,
      line: lineAt(text, position),
    });
  };
  const statements = /^(import|export)\s+(type\s+)?(?:[\w$*{][^'"`;]*?\sfrom\s+)?(?=['"])/gm;
  for (const match of code.matchAll(statements)) {
    add(match.index + match[0].length, match[2] === undefined ? 'static' : 'type');
  }
  for (const match of code.matchAll(/\bimport\(\s*(?=['"`])/g)) {
    add(match.index + match[0].length, 'lazy');
  }
  return found;
}

export function functionsOf(source: Source): FunctionFact[] {
  const lines = source.code.split('\n');
  const seen = new Set<number>(); // a head whose parameters open a brace of their own is met twice
  return lines.flatMap((line, index): FunctionFact[] => {
    if (!/\{\s*$/.test(line)) return [];
    const start = headStart(lines, index);
    const head = lines
      .slice(start, index + 1)
      .join(' ')
      .trim();
    if (seen.has(start) || !opensFunction(head)) return [];
    seen.add(start);
    const end = bodyEnd(lines, index, indentOf(line));
    return [{ name: nameOf(head), line: start + 1, lines: end - start + 1 }];
  });
}

/** A head of several lines closes with `)` at the indent of its first line. */
function headStart(lines: string[], index: number): number {
  const line = lines[index] ?? '';
  if (!/^\s*[)}]/.test(line)) return index;
  const indent = indentOf(line);
  for (let at = index - 1; at >= 0; at -= 1) {
    const above = lines[at] ?? '';
    if (above.trim() === '') continue;
    if (indentOf(above) < indent) break;
    if (indentOf(above) === indent && !/^\s*[)}]/.test(above)) return at;
  }
  return index;
}

const not_functions = /^(if|for|while|switch|catch|else|try|do|with|class|type|interface|return)\b/;
const method_head =
  /^(?:(?:async|static|override|get|set|readonly)\s+|[*#])*[\w$[\]."]+\s*(<.*>)?\(/;

function opensFunction(head: string): boolean {
  if (/\bfunction\b/.test(head)) return true;
  if (/=>\s*\{$/.test(head)) return true;
  if (not_functions.test(head) || !method_head.test(head)) return false;
  const opening = head.replace(/\{$/, '');
  const count = (pattern: RegExp) => opening.match(pattern)?.length ?? 0;
  return count(/\(/g) === count(/\)/g) && /\)(\s*:.*)?\s*$/.test(opening);
}

function bodyEnd(lines: string[], index: number, indent: number): number {
  for (let at = index + 1; at < lines.length; at += 1) {
    const line = lines[at] ?? '';
    // `}: Props) {` and `} {` still belong to the head: they open again.
    if (indentOf(line) === indent && /^\s*\}/.test(line) && !/\{\s*$/.test(line)) return at;
  }
  return lines.length - 1;
}

function nameOf(head: string): string {
  const match =
    /\bfunction\b\s*\*?\s*([\w$]+)/.exec(head) ??
    /\b(?:const|let)\s+([\w$]+)/.exec(head) ??
    /([\w$]+)\s*(?:<.*>)?[(:]/.exec(head);
  return match?.[1] ?? 'anonymous';
}

function indentOf(line: string): number {
  return line.length - line.trimStart().length;
}
