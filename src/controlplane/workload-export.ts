/**
 * The export of a workload: one JSON document with everything recorded about it, without its
 * secrets (ADR-0030).
 *
 * Invariants: canonical JSON, so the same record gives the same bytes; every redaction is listed
 * with the pointer of its place and its rule; what is left out for its size is counted.
 */
import { scopeOf } from '../contract/auth.ts';
import { routes } from '../contract/routes.ts';
import { canonicalJson } from '../core/canonical-json.ts';
import { type Json, type Redaction, redact } from '../core/redaction.ts';
import { lengthWithin } from '../core/usage.ts';
import type { Clock } from '../lib/clock.ts';
import { createSlices, type Slices } from '../lib/slices.ts';
import { export_rows, readWorkloadRecord, type Section } from '../store/export.ts';
import type { LedgerRow } from '../store/ledger.ts';
import type { Row } from '../store/sql.ts';
import type { EinsoraStore } from '../store/transactions.ts';

export const export_format = 'einsora.workload-export/v1';

const slice_ms = 3;
/** Characters of one section; a timeline with output in every event could be larger. */
const section_chars = 8 * 2 ** 20;
/** Columns that hold JSON. */
const documents = new Set(['ask', 'details', 'exit', 'spec']);
const always = { from: 0, to: Number.MAX_SAFE_INTEGER };

/** Routes that change something. */
const writing_routes = Object.entries(routes).flatMap(([name, { auth, method }]) =>
  auth.who === 'user' && scopeOf(auth, method)?.endsWith(':write') ? [name] : [],
);

/** The document's text; null where the workload is gone. */
export async function exportWorkload(
  { store, clock }: { store: EinsoraStore; clock: Clock },
  workload_id: string,
): Promise<string | null> {
  const asked = { workload_id, limit: export_rows, routes: writing_routes };
  const record = await store.read(readWorkloadRecord, asked);
  if (record === undefined) return null;
  const slices = createSlices(clock, slice_ms);
  const redactions: Redaction[] = [];
  const workload = clean(record.workload, '/workload', redactions);
  const members = new Map<string, string>();
  const left_out: Record<string, number> = {};
  for (const [name, section] of Object.entries(record.sections)) {
    const { text, missing } = await sectionText(name, section, redactions, slices);
    members.set(name, text);
    if (missing > 0) left_out[name] = missing;
  }
  members.set('format', canonicalJson(export_format));
  members.set('left_out', canonicalJson(left_out));
  members.set('redactions', canonicalJson(redactions));
  members.set('usage', canonicalJson(usageOf(record.sections.ledger?.rows as LedgerRow[])));
  members.set('workload', canonicalJson(workload));
  const names = [...members.keys()].sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${members.get(name)}`).join(',')}}`;
}

async function sectionText(
  name: string,
  { rows, left_out }: Section,
  redactions: Redaction[],
  slices: Slices,
): Promise<{ text: string; missing: number }> {
  const texts: string[] = [];
  let chars = 0;
  for (const [index, row] of rows.entries()) {
    const found: Redaction[] = [];
    const text = canonicalJson(clean(row, `/${name}/${index}`, found));
    chars += text.length;
    if (chars > section_chars) break;
    texts.push(text);
    redactions.push(...found);
    if (slices.isOver()) await slices.rest();
  }
  return { text: `[${texts.join(',')}]`, missing: left_out + rows.length - texts.length };
}

function clean(row: Row, pointer: string, redactions: Redaction[]): Json {
  const parsed = Object.entries(row).map(([name, value]) => [name, documentOf(name, value)]);
  const { value, redactions: found } = redact(Object.fromEntries(parsed), pointer);
  redactions.push(...found);
  return value;
}

function documentOf(name: string, value: Row[string] | undefined): Json {
  if (value === undefined) return null;
  if (typeof value !== 'string' || !documents.has(name) || value === '') return value;
  try {
    return JSON.parse(value) as Json;
  } catch {
    return value;
  }
}

/** What is closed; an open interval is in the ledger, and ends when it ends. */
function usageOf(ledger: LedgerRow[]): { held_ms: number; metered_ms: number; open: number } {
  const usage = { held_ms: 0, metered_ms: 0, open: 0 };
  for (const { kind, sign, started_at, ended_at } of ledger) {
    if (ended_at === null) usage.open += 1;
    else usage[`${kind}_ms`] += lengthWithin({ sign, started_at, ended_at }, always);
  }
  return usage;
}
