/**
 * The head of an HTTP/1.1 answer: its status, its headers, and how its body is framed.
 *
 * Invariants: a head that could be read in two ways is none: a body with two lengths or two
 * framings, folded lines, names that are no tokens (RFC 9112).
 */
export type AnswerHead = {
  status: number;
  /** By names in lower case; of several with one name, joined with commas. */
  headers: ReadonlyMap<string, string>;
  /** A count of bytes, chunks, or until the connection ends. */
  framing: number | 'chunked' | 'until_end';
  /** Another question may follow on the same connection. */
  is_kept: boolean;
};

/** `text`: without the empty line at its end. Null: it is none. */
export type ReadHead = (text: string) => AnswerHead | null;

/** Programs answer with the same head again and again: the last one is remembered. */
export function rememberHead(): ReadHead {
  let last: { text: string; head: AnswerHead | null } | null = null;
  return (text) => {
    if (last?.text !== text) last = { text, head: parseAnswerHead(text) };
    return last.head;
  };
}

export function parseAnswerHead(text: string): AnswerHead | null {
  const [first = '', ...lines] = text.split('\r\n');
  const [, minor, digits] = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: |$)/.exec(first) ?? [];
  if (digits === undefined) return null;
  const headers = new Map<string, string>();
  for (const line of lines) {
    const colon = line.indexOf(':');
    const name = line.slice(0, colon).toLowerCase();
    if (colon < 1 || !/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name)) return null;
    const value = line.slice(colon + 1).trim();
    if (/[\0\r\n]/.test(value)) return null;
    const before = headers.get(name);
    headers.set(name, before === undefined ? value : `${before}, ${value}`);
  }
  const status = Number(digits);
  const framing = framingOf(status, headers);
  if (framing === null) return null;
  const said = (headers.get('connection') ?? '').toLowerCase();
  const goes_on = minor === '1' ? !/\bclose\b/.test(said) : /\bkeep-alive\b/.test(said);
  return { status, headers, framing, is_kept: goes_on && framing !== 'until_end' };
}

function framingOf(
  status: number,
  headers: ReadonlyMap<string, string>,
): AnswerHead['framing'] | null {
  const coding = headers.get('transfer-encoding');
  const length = headers.get('content-length');
  if (coding !== undefined && (length !== undefined || coding.toLowerCase() !== 'chunked')) {
    return null;
  }
  if (status < 200 || status === 204 || status === 304) return 0;
  if (coding !== undefined) return 'chunked';
  if (length === undefined) return 'until_end';
  return /^\d{1,15}$/.test(length) ? Number(length) : null;
}
