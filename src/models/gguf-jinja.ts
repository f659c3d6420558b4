/**
 * Cuts a chat template (Jinja) into its tags and their tokens, as far as the rules need.
 *
 * Invariants: linear in the template's length; brackets inside strings, comments and plain text are
 * not counted; a tag or string that does not end is refused, since the engine could read it in
 * another way than we do.
 */
import { gguf_limits as limits } from './gguf-limits.ts';
import { must } from './validate-refusal.ts';

export type JinjaToken = {
  kind: 'word' | 'number' | 'string' | 'sign';
  text: string;
};

const space = /[\s\ufeff]+/y;
const word = /[\p{L}_][\p{L}\p{N}_]*/uy;
const number = /\d[\w.]*/y;
const sign = /\*\*|\/\/|[=!<>]=|./suy;

/** Yields the tokens of each `{{ }}` and `{% %}`, without the delimiters, in order. */
export function* jinjaTags(template: string): Generator<JinjaToken[]> {
  let at = 0;
  for (;;) {
    const start = nextTag(template, at);
    if (start < 0) return;
    if (template[start + 1] === '#') {
      const end = template.indexOf('#}', start + 2);
      must(end >= 0, 'template_tag', () => `A comment at character ${start} does not end.`);
      at = end + 2;
    } else {
      const tag = readTag(template, start);
      at = tag.end;
      yield tag.tokens;
    }
  }
}

function nextTag(template: string, from: number): number {
  for (let at = from; ; at += 1) {
    at = template.indexOf('{', at);
    if (at < 0) return -1;
    const next = template[at + 1];
    if (next === '{' || next === '%' || next === '#') return at;
  }
}

function readTag(template: string, start: number): { tokens: JinjaToken[]; end: number } {
  const close = template[start + 1] === '%' ? '%}' : '}}';
  const tokens: JinjaToken[] = [];
  let braces = 0;
  let depth = 0;
  let at = start + 2;
  for (;;) {
    at = past(space, template, at);
    must(at < template.length, 'template_tag', () => `A tag at character ${start} does not end.`);
    if (braces === 0 && template.startsWith(close, at)) return { tokens, end: at + 2 };
    const token = readToken(template, at);
    at += token.text.length;
    if (token.text === '{') braces += 1;
    if (token.text === '}') braces -= 1;
    if (token.kind === 'sign' && '([{'.includes(token.text)) depth += 1;
    if (token.kind === 'sign' && ')]}'.includes(token.text)) depth -= 1;
    must(depth <= limits.template_brackets, 'template_nesting', () => `At character ${at}.`);
    tokens.push(token);
    must(
      tokens.length <= limits.template_tag_tokens,
      'template_tag',
      () => `The tag at character ${start} has more than ${limits.template_tag_tokens} tokens.`,
    );
  }
}

function readToken(template: string, at: number): JinjaToken {
  const first = template[at] ?? '';
  if (first === "'" || first === '"') {
    return { kind: 'string', text: template.slice(at, stringEnd(template, at)) };
  }
  for (const [kind, pattern] of [
    ['word', word],
    ['number', number],
  ] as const) {
    const end = past(pattern, template, at);
    if (end > at) return { kind, text: template.slice(at, end) };
  }
  return { kind: 'sign', text: template.slice(at, past(sign, template, at)) };
}

function stringEnd(template: string, start: number): number {
  const quote = template[start];
  for (let at = start + 1; at < template.length; at += 1) {
    if (template[at] === '\\') at += 1;
    else if (template[at] === quote) return at + 1;
  }
  must(false, 'template_tag', () => `A string at character ${start} does not end.`);
}

/** Where the pattern's match at `at` ends, or `at` when there is none. */
function past(pattern: RegExp, template: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.test(template) ? pattern.lastIndex : at;
}
