/**
 * Where a sealed log is read from: a control plane, page by page, or an exported file, by lines.
 *
 * Invariants: both are given in the same form and order; memory holds one page, not the log; what
 * is no export, or was cut off, is said before anything is called proved.
 */
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import type { AnchorPage, SealPage } from '../contract/activity.ts';
import type { Anchor, Seal, SealedRow } from '../core/activity-chain.ts';
import { CliError } from './cli-error.ts';
import type { Client } from './client.ts';
import { withQuery } from './newest.ts';

export const export_format = 'einsora.activity-export/v1';

export type Header = {
  format: typeof export_format;
  tenant_id: string;
  /** Ed25519, base64: what the anchors are signed with. */
  public_key: string;
  first_seal: number;
  /** Of the seal before it. */
  previous_hash: string;
};

export type LogPart =
  | { kind: 'header'; header: Header }
  | { kind: 'seal'; seal: Seal; rows: SealedRow[] }
  | { kind: 'anchor'; anchor: Anchor }
  /** `head_seq`: the last numbered row of the log, where all of it was read. */
  | { kind: 'end'; head_seq: number | null };

export type Range = { tenant?: string; from?: number; to?: number };

/** The log of a tenant: seals made from `from` on and before `to`, then their anchors. */
export async function* readServer(client: Client, range: Range): AsyncGenerator<LogPart> {
  const { tenant, from, to } = range;
  const sealsPath = (query: Record<string, number | undefined>) =>
    withQuery('/v1/activity/seals', { tenant, ...query });
  // Before the seals: an anchor made meanwhile would be of a seal that was not read.
  const { public_key, anchors } = await readAnchors(client, tenant);
  let page = await client.call<SealPage>('GET', sealsPath({ since: from }));
  const { tenant_id, previous_hash } = page;
  const first_seal = page.items[0]?.seal.number ?? 1;
  const header = {
    format: export_format,
    tenant_id,
    public_key,
    first_seal,
    previous_hash,
  } as const;
  yield { kind: 'header', header };
  let last: Seal | undefined;
  let is_cut = false;
  for (;;) {
    for (const { seal, rows } of page.items) {
      is_cut ||= to !== undefined && seal.at >= to;
      if (is_cut) break;
      yield { kind: 'seal', seal, rows };
      last = seal;
    }
    if (is_cut || !page.more || last === undefined) break;
    page = await client.call<SealPage>('GET', sealsPath({ after: last.number }));
  }
  for (const anchor of anchors) {
    // Of a part of the log, only what that part can prove.
    const is_inside = !is_cut || anchor.number <= (last?.number ?? 0);
    if (anchor.number >= first_seal && is_inside) yield { kind: 'anchor', anchor };
  }
  yield { kind: 'end', head_seq: is_cut ? null : page.head_seq };
}

async function readAnchors(client: Client, tenant: string | undefined) {
  const anchors: Anchor[] = [];
  for (let cursor: string | undefined; ; ) {
    const path = withQuery('/v1/activity/anchors', { tenant, cursor });
    const page: AnchorPage = await client.call<AnchorPage>('GET', path);
    anchors.push(...page.items);
    if (page.next_cursor === null) return { public_key: page.public_key, anchors };
    cursor = page.next_cursor;
  }
}

type Line =
  | ({ kind: 'header' } & Header)
  | ({ kind: 'row' } & SealedRow)
  | ({ kind: 'seal' } & Seal)
  | ({ kind: 'anchor' } & Anchor)
  | { kind: 'end'; rows: number; seals: number; anchors: number };

/** An exported file. Throws CliError where it is none, or is cut off. */
export async function* readExport(path: string): AsyncGenerator<LogPart> {
  const counts = { rows: 0, seals: 0, anchors: 0 };
  let rows: SealedRow[] = [];
  let begun = false;
  for await (const line of readLines(path)) {
    const { kind, ...part } = line;
    if (!begun && (kind !== 'header' || line.format !== export_format)) {
      throw noExport(path, `its first line is not of ${export_format}`);
    }
    begun = true;
    if (kind === 'header') yield { kind, header: part as Header };
    else if (kind === 'row') {
      rows.push(part as SealedRow);
      counts.rows += 1;
    } else if (kind === 'seal') {
      counts.seals += 1;
      yield { kind, seal: part as Seal, rows };
      rows = [];
    } else if (kind === 'anchor') {
      counts.anchors += 1;
      yield { kind, anchor: part as Anchor };
    } else if (kind === 'end') {
      const whole = Object.entries(counts).every(([name, count]) => line[name as never] === count);
      if (!whole || rows.length > 0) throw noExport(path, 'lines of it are missing');
      return yield { kind, head_seq: null };
    } else throw noExport(path, 'it holds lines of another kind');
  }
  throw noExport(path, 'its end is missing');
}

async function* readLines(path: string): AsyncGenerator<Line> {
  const input = createReadStream(path, 'utf8');
  try {
    for await (const line of createInterface({ input, crlfDelay: Infinity })) {
      yield JSON.parse(line) as Line;
    }
  } catch (error) {
    throw noExport(path, error instanceof Error ? error.message : String(error));
  }
}

/** Anchors that were kept elsewhere: JSON lines, as the control plane writes them. */
export async function readAnchorFile(path: string): Promise<Anchor[]> {
  const anchors: Anchor[] = [];
  for await (const line of readLines(path)) {
    const found = line as Partial<Anchor> | null;
    if (found?.format === 'einsora.activity-anchor/v1') anchors.push(found as Anchor);
  }
  return anchors;
}

function noExport(path: string, why: string): CliError {
  const message = `${path} is no whole export of an activity log: ${why}.`;
  const fix = 'bin/einsora audit export -o FILE';
  return new CliError({ code: 'export_incomplete', message, fix, exit: 'failed' });
}
