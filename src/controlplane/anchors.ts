/**
 * Anchors of the activity log: signed copies of the newest seals, outside the store.
 *
 * Invariants: the key is a file for its owner alone; the anchors are one append-only file of JSON
 * lines, each on disk before the next is made; a line that a power cut left half-written is passed
 * over; each anchor is on a line of the program's log as well.
 */
import {
  closeSync,
  existsSync,
  fstatSync,
  fsyncSync,
  openSync,
  readSync,
  writeFileSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { type Anchor, type AnchorFacts, anchorText, type Seal } from '../core/activity-chain.ts';
import { makePrivateKey, publicKeyOf, seed_bytes, signText } from '../lib/ed25519.ts';
import { isErrno, readIfThere, writeDurably } from '../lib/files.ts';
import type { Log } from '../lib/log.ts';
import type { Random } from '../lib/random.ts';
import { Secret } from '../lib/secret.ts';

export type Anchors = {
  /** Ed25519, base64. */
  public_key: string;
  /** Signs the seals and adds them to the file; returns once they are on disk. */
  add(seals: readonly Seal[], now: number): void;
  /** A tenant's anchors from a byte of the file on: reads at most 1 MiB. */
  page(tenant_id: string, offset: number): Promise<AnchorPage>;
};

export type AnchorPage = { anchors: Anchor[]; next_offset: number; more: boolean };

const page_bytes = 1024 * 1024;

export function openAnchors(deps: {
  data_dir: string;
  store_uuid: string;
  random: Random;
  log: Log;
}): Anchors {
  const { data_dir, store_uuid, random, log } = deps;
  const path = join(data_dir, 'activity-anchors.jsonl');
  const key_path = join(data_dir, 'activity-key');
  if (existsSync(path) && !existsSync(key_path)) {
    log.warn({ path: key_path }, 'the key that signed the anchors is gone; another one signs now');
  }
  const key = readKey(key_path, random);
  const public_key = publicKeyOf(key);
  return {
    public_key,
    add(seals, now) {
      if (seals.length === 0) return;
      const lines = seals.map(({ tenant_id, number, last_seq, hash }) => {
        const facts: AnchorFacts = {
          format: 'einsora.activity-anchor/v1',
          ...{ store_uuid, tenant_id, at: now, number, last_seq, hash, public_key },
        };
        const signature = signText(key, anchorText(facts));
        log.info({ tenant_id, number, last_seq, hash, signature }, 'activity anchored');
        return JSON.stringify({ ...facts, signature } satisfies Anchor);
      });
      append(path, `${lines.join('\n')}\n`);
    },
    async page(tenant_id, offset) {
      const { text, next_offset, more } = await readChunk(path, offset);
      const anchors = parseLines(text).filter((anchor) => anchor.tenant_id === tenant_id);
      return { anchors, next_offset, more };
    },
  };
}

function readKey(path: string, random: Random): Secret {
  const known = readIfThere(path);
  if (known !== null) return new Secret(known);
  const made = makePrivateKey(random.bytes(seed_bytes));
  writeDurably(path, made.reveal());
  return made;
}

function append(path: string, text: string): void {
  const file = openSync(path, 'a+', 0o600);
  try {
    const { size } = fstatSync(file);
    const last = Buffer.alloc(1);
    if (size > 0) readSync(file, last, 0, 1, size - 1);
    const is_torn = size > 0 && last.toString() !== '\n';
    writeFileSync(file, is_torn ? `\n${text}` : text);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

/** Whole lines from a byte on. */
async function readChunk(path: string, offset: number) {
  const nothing = { text: '', next_offset: offset, more: false };
  const file = await open(path, 'r').catch((error) => {
    if (isErrno(error, 'ENOENT')) return null;
    throw error;
  });
  if (file === null) return nothing;
  try {
    const { size } = await file.stat();
    const chunk = Buffer.alloc(Math.min(page_bytes, Math.max(0, size - offset)));
    await file.read(chunk, 0, chunk.length, offset);
    const end = chunk.lastIndexOf(10) + 1;
    if (end === 0) return nothing;
    const next_offset = offset + end;
    return { text: chunk.toString('utf8', 0, end), next_offset, more: next_offset < size };
  } finally {
    await file.close();
  }
}

function parseLines(text: string): Anchor[] {
  return text.split('\n').flatMap((line) => {
    try {
      const found = JSON.parse(line) as Anchor | null;
      return found?.format === 'einsora.activity-anchor/v1' ? [found] : [];
    } catch {
      return [];
    }
  });
}
