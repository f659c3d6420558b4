/**
 * How the command line prints: aligned tables, lines, one JSON document, errors.
 *
 * Invariants: text from elsewhere passes `plainText`; colours only on a terminal and without
 * NO_COLOR; only the last column of a table is ever cut, and only on a terminal.
 */
import { styleText } from 'node:util';
import { plainText } from '../lib/text.ts';
import type { CliError } from './cli-error.ts';
import type { Context, Terminal } from './io.ts';

export type Tint = 'green' | 'yellow' | 'red' | 'dim' | 'bold';

/** Data for the user or the next program. */
export function printData(context: Context, text: string): void {
  context.io.stdout.write(`${text}\n`);
}

/** Talk: progress, hints, errors. */
export function say(context: Context, text: string): void {
  context.io.stderr.write(`${text}\n`);
}

/** The one JSON document of a command. */
export function printJson(context: Context, document: unknown): void {
  printData(context, JSON.stringify(document, null, 2));
}

/** One JSON document per line, for what has no end. */
export function printJsonLine(context: Context, document: unknown): void {
  printData(context, JSON.stringify(document));
}

/** Colours text for a stream that is a terminal. */
export function tint(context: Context, stream: Terminal, color: Tint, text: string): string {
  const on = stream.isTTY === true && context.config.color;
  return on ? styleText(color, text, { validateStream: false }) : text;
}

/** One line of text from elsewhere: no control characters, no line breaks. */
export function oneLine(text: string): string {
  return plainText(text).replace(/\s+/g, ' ').trim();
}

/**
 * Rows under upper-case headings. Cells are made plain; empty ones show as a dash. From the column
 * `figures_from` on they are figures, which end under each other.
 */
export function printTable(
  context: Context,
  headings: string[],
  rows: string[][],
  figures_from?: number,
): void {
  const width = context.io.stdout.isTTY ? context.io.stdout.columns || 80 : null;
  const cells = rows.map((row) => row.map((cell) => oneLine(cell) || '-'));
  for (const line of alignColumns([headings, ...cells], figures_from)) {
    printData(context, width === null ? line : cutTo(line, width));
  }
}

/** Pads columns to their widest cell, figures on the left, two spaces between. */
export function alignColumns(rows: string[][], figures_from = Number.MAX_SAFE_INTEGER): string[] {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [index, cell] of row.entries()) {
      widths[index] = Math.max(widths[index] ?? 0, [...cell].length);
    }
  }
  return rows.map((row) =>
    row
      .map((cell, index) => {
        const space = ' '.repeat(Math.max(0, (widths[index] ?? 0) - [...cell].length));
        return index < figures_from ? cell + space : space + cell;
      })
      .join('  ')
      .trimEnd(),
  );
}

/** Cuts to so many characters, with a mark where something is missing. */
export function cutTo(line: string, width: number): string {
  const characters = [...line];
  return characters.length <= width ? line : `${characters.slice(0, width - 1).join('')}…`;
}

/** Lines of "key  value" under each other; a null value is left out. */
export function pairLines(pairs: [string, string | null][]): string[] {
  const shown = pairs.filter((pair): pair is [string, string] => pair[1] !== null);
  return alignColumns(shown.map(([key, value]) => [key, oneLine(value)]));
}

/** What went wrong, for people: code, sentence, what helps, the request's id. */
export function sayError(context: Context, error: CliError): void {
  const { stderr } = context.io;
  say(context, `${tint(context, stderr, 'red', `error ${error.code}`)}: ${oneLine(error.message)}`);
  if (error.fix !== null) say(context, `  fix: ${oneLine(error.fix)}`);
  if (error.request_id !== null) say(context, `  request: ${oneLine(error.request_id)}`);
}
