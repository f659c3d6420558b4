/**
 * JSON as a person writes it in a file: what is wrong with it, and on which line.
 */
export type Parsed =
  | { ok: true; value: unknown }
  | { ok: false; line: number | null; problem: string };

export function parseJson(text: string): Parsed {
  try {
    return { ok: true, value: JSON.parse(text) };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const at = / at position (\d+)/.exec(message)?.[1];
    const short = message.replace(/ in JSON.*$/s, '').replace(/, \.{0,3}".*$/s, '');
    const end = text.trimEnd().length;
    const position = at === undefined ? end : Math.min(end, Number(at));
    return { ok: false, line: lineAt(text, position), problem: `no JSON: ${short}` };
  }
}

/** The line on which a setting stands, by its path of names; the line of the last one found. */
export function lineOf(text: string, path: readonly string[]): number | null {
  let from = 0;
  let found: number | null = null;
  for (const name of path) {
    if (/^\d+$/.test(name)) continue;
    const at = text.indexOf(`${JSON.stringify(name)}`, from);
    if (at === -1) break;
    found = lineAt(text, at);
    from = at + name.length;
  }
  return found;
}

function lineAt(text: string, position: number): number {
  return text.slice(0, position).split('\n').length;
}
