/**
 * The chain that seals the activity log of a tenant, and how it is checked (ADR-0031).
 *
 * A row's text holds what happened, and only a salted commitment to who did it and with what
 * details; a seal's hash covers the seal before it and the texts of its rows, in their order; an
 * anchor is a signed copy of a seal that lies outside the store.
 *
 * Invariants: pure, hashes and signatures come by argument; the check reads each row and seal
 * once, in order; whoever erases the personal part of a row, with its salt, leaves the chain whole.
 */
import { canonicalJson } from './canonical-json.ts';

/** What can be erased of a row. */
export type PersonalPart = {
  user_id: string | null;
  actor: string | null;
  proof_id: string | null;
  client_request_id: string | null;
  /** JSON as text. */
  details: string;
};

export type SealedRow = PersonalPart & {
  id: string;
  tenant_id: string;
  seq: number;
  at: number;
  via: string;
  request_id: string;
  route: string;
  target: string | null;
  outcome: string;
  commitment: string;
  /** Null once the personal part was erased. */
  salt: string | null;
};

export type Seal = {
  tenant_id: string;
  number: number;
  at: number;
  first_seq: number;
  last_seq: number;
  hash: string;
};

export type AnchorFacts = {
  format: 'einsora.activity-anchor/v1';
  store_uuid: string;
  tenant_id: string;
  at: number;
  number: number;
  last_seq: number;
  hash: string;
  /** Ed25519, base64. */
  public_key: string;
};
export type Anchor = AnchorFacts & { signature: string };

export type Digest = (text: string) => string;

/** The hash before the first seal. */
export const no_hash = '0'.repeat(64);

export function commitmentOf(part: PersonalPart, salt: string, digest: Digest): string {
  const { user_id, actor, proof_id, client_request_id, details } = part;
  // In the order of canonical JSON, which this is: a flat record of texts.
  return digest(JSON.stringify({ actor, client_request_id, details, proof_id, salt, user_id }));
}

type ChainedRow = Omit<SealedRow, keyof PersonalPart | 'salt'>;

/** The hash of a seal over its rows. */
export function sealHash(
  previous_hash: string,
  seal: Omit<Seal, 'hash'>,
  rows: readonly ChainedRow[],
  digest: Digest,
): string {
  const { tenant_id, number, at, first_seq, last_seq } = seal;
  // In the order of canonical JSON, which this is: texts, and integers.
  const texts = rows.map((row) => ({
    ...{ at: row.at, commitment: row.commitment, id: row.id, outcome: row.outcome },
    ...{ request_id: row.request_id, route: row.route, seq: row.seq, target: row.target },
    via: row.via,
  }));
  const batch = { at, first_seq, last_seq, number, rows: texts, tenant_id };
  return digest(previous_hash + JSON.stringify(batch));
}

/** What an anchor's signature covers. */
export function anchorText(anchor: AnchorFacts): string {
  const { format, store_uuid, tenant_id, at, number, last_seq, hash, public_key } = anchor;
  const facts = { format, store_uuid, tenant_id, at, number, last_seq, hash, public_key };
  return canonicalJson(facts);
}

export type ChainProblem = {
  code:
    | 'row_changed'
    | 'row_missing'
    | 'row_foreign'
    | 'seal_missing'
    | 'seal_changed'
    | 'log_truncated'
    | 'anchor_changed'
    | 'anchor_forged';
  /** Of the seal, where it is about one. */
  number: number | null;
  message: string;
};

export type ChainCheck = {
  /** The next seal with its rows, in the order of their numbers. */
  seal(seal: Seal, rows: readonly SealedRow[]): void;
  /**
   * What was found, with the anchors; called once, at the end. `head_seq`: number of the last row
   * that has one, where it is known.
   */
  finish(anchors: readonly Anchor[], head_seq: number | null): ChainReport;
};

export type ChainReport = {
  problems: ChainProblem[];
  seals: number;
  rows: number;
  anchors: number;
  /** Time of the newest anchor that holds; what came after it could be cut off unseen. */
  anchored_until: number | null;
};

export type ChainStart = {
  tenant_id: string;
  /** Of the first seal that is checked: 1 for all of the log. */
  first_number: number;
  /** Hash of the seal before it. */
  previous_hash: string;
};

/** Problems beyond these are counted by nobody: the first ones say where to look. */
const most_problems = 100;

/** Checks a chain from its start, one seal after the other. */
export function checkChain(
  start: ChainStart,
  how: { digest: Digest; isSigned: (anchor: Anchor) => boolean },
): ChainCheck {
  const { digest } = how;
  const problems: ChainProblem[] = [];
  const hashes = new Map<number, Seal>();
  let next_number = start.first_number;
  let next_seq: number | null = start.first_number === 1 ? 1 : null;
  let hash = start.previous_hash;
  const counts = { seals: 0, rows: 0 };
  const problem = (code: ChainProblem['code'], number: number | null, message: string) => {
    if (problems.length < most_problems) problems.push({ code, number, message });
  };

  function seal(one: Seal, rows: readonly SealedRow[]): void {
    const { number, first_seq, last_seq } = one;
    if (number !== next_number) {
      problem('seal_missing', number, `seal ${next_number} is missing before seal ${number}`);
    }
    if (next_seq !== null && first_seq !== next_seq) {
      problem('row_missing', number, `seal ${number} begins at row ${first_seq}, not ${next_seq}`);
    }
    checkRows(one, rows, digest, problem);
    const actual = sealHash(hash, { ...one, tenant_id: start.tenant_id }, rows, digest);
    if (actual !== one.hash) {
      const where = `rows ${first_seq} to ${last_seq}`;
      problem('seal_changed', number, `${where} are not as they were sealed (seal ${number})`);
    }
    counts.seals += 1;
    counts.rows += rows.length;
    hashes.set(number, one);
    next_number = number + 1;
    next_seq = last_seq + 1;
    // Goes on from what is written, so that one change is told once.
    hash = one.hash;
  }

  function finish(anchors: readonly Anchor[], head_seq: number | null): ChainReport {
    if (head_seq !== null && next_seq !== null && head_seq !== next_seq - 1) {
      problem('seal_missing', null, `rows up to ${head_seq} have numbers, and no seal covers them`);
    }
    let anchored_until: number | null = null;
    let held = 0;
    for (const anchor of anchors) {
      if (anchor.number < start.first_number - 1) continue;
      const found = checkAnchor(anchor, start, hashes.get(anchor.number), how.isSigned);
      if (found !== null) problem(found.code, anchor.number, found.message);
      else {
        held += 1;
        anchored_until = Math.max(anchored_until ?? 0, anchor.at);
      }
    }
    return { problems, ...counts, anchors: held, anchored_until };
  }

  return { seal, finish };
}

function checkRows(
  seal: Seal,
  rows: readonly SealedRow[],
  digest: Digest,
  problem: (code: ChainProblem['code'], number: number, message: string) => void,
): void {
  const { number, first_seq, last_seq, tenant_id } = seal;
  for (const [index, row] of rows.entries()) {
    const name = `row ${row.seq}`;
    if (row.seq !== first_seq + index) {
      problem('row_missing', number, `row ${first_seq + index} of seal ${number} is missing`);
      break;
    }
    if (row.tenant_id !== tenant_id) problem('row_foreign', number, `${name} is of another tenant`);
    const { user_id, actor, proof_id, client_request_id, details, salt } = row;
    const is_erased = [user_id, actor, proof_id, client_request_id].every((one) => one === null);
    if (salt === null ? !is_erased || details !== '{}' : !holds(row, salt, digest)) {
      problem('row_changed', number, `who did ${name}, or its details, were changed`);
    }
  }
  if (rows.length !== last_seq - first_seq + 1) {
    problem('row_missing', number, `seal ${number} has ${rows.length} rows of its own`);
  }
}

function holds(row: SealedRow, salt: string, digest: Digest): boolean {
  return commitmentOf(row, salt, digest) === row.commitment;
}

function checkAnchor(
  anchor: Anchor,
  start: ChainStart,
  seal: Seal | undefined,
  isSigned: (anchor: Anchor) => boolean,
): { code: ChainProblem['code']; message: string } | null {
  const name = `the anchor of seal ${anchor.number}`;
  if (anchor.tenant_id !== start.tenant_id || !isSigned(anchor)) {
    return { code: 'anchor_forged', message: `${name} is not signed by this deployment` };
  }
  if (anchor.number === start.first_number - 1) {
    const fits = anchor.hash === start.previous_hash;
    return fits ? null : { code: 'anchor_changed', message: `${name} has another hash` };
  }
  if (seal === undefined) {
    return { code: 'log_truncated', message: `${name} stands, and the log ends before it` };
  }
  if (seal.hash !== anchor.hash || seal.last_seq !== anchor.last_seq) {
    return { code: 'anchor_changed', message: `${name} has another hash than the log` };
  }
  return null;
}
