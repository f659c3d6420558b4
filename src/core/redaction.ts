/**
 * Redaction: takes secrets out of what is handed on, and lists each place that it changed
 * (ADR-0030).
 *
 * Invariants: pure; only what a rule matched is replaced, by `REDACTED`, all else is as it was;
 * every changed place is listed with its JSON pointer and the rule; a second pass changes nothing.
 */
import { hiddenField, redacted, textRules } from './redaction-rules.ts';

const most_rounds = 10;

export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };
export type Redaction = { pointer: string; rule: string };
export type Redacted = { value: Json; redactions: Redaction[] };

/** `pointer`: where the value stands in the document that it belongs to. */
export function redact(value: Json, pointer = ''): Redacted {
  const redactions: Redaction[] = [];
  return { value: walk(value, pointer, null, redactions), redactions };
}

/** `hide`: the rule that hides every value below, or null. */
function walk(value: Json, pointer: string, hide: string | null, found: Redaction[]): Json {
  if (Array.isArray(value)) {
    return value.map((item, index) => walk(item, `${pointer}/${index}`, hide, found));
  }
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(
      Object.entries(value).map(([key, member]) => {
        const at = `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
        return [key, walk(member, at, hide ?? hiddenField(key, member), found)];
      }),
    );
  }
  if (hide !== null) return hideValue(value, pointer, hide, found);
  return typeof value === 'string' ? cleanText(value, pointer, found) : value;
}

function hideValue(
  value: string | number | boolean | null,
  pointer: string,
  rule: string,
  found: Redaction[],
): Json {
  if (value === null || value === '' || value === redacted) return value;
  // NAME=value, as the environment of a container is often written: the name stays.
  const name = rule === 'field.env' ? /^[A-Za-z_]\w*=(?=.)/.exec(String(value))?.[0] : undefined;
  const hidden = `${name ?? ''}${redacted}`;
  if (value !== hidden) found.push({ pointer, rule });
  return hidden;
}

/** What one rule leaves may show another one what it missed, so all are asked until none finds. */
function cleanText(text: string, pointer: string, found: Redaction[]): string {
  let clean = text;
  const rules = new Set<string>();
  for (let round = 0; round < most_rounds; round += 1) {
    const before = clean;
    for (const { id, apply } of textRules) {
      const next = apply(clean);
      if (next !== clean) rules.add(id);
      clean = next;
    }
    if (clean === before) break;
  }
  for (const rule of rules) found.push({ pointer, rule });
  return clean;
}
