/**
 * Who is asking: reads an endpoint key out of a request and judges the stored one.
 *
 * Invariants: the key comes from one `Authorization: Bearer` header and from nowhere else (no
 * query, no cookie); its form is checked before anything is hashed or looked up; only its digest
 * leaves this file.
 */
import type { IncomingMessage } from 'node:http';
import type { RequestLimits } from '../core/request-limits.ts';
import { checkToken } from '../core/token.ts';
import { digest } from '../lib/secret.ts';

/** A stored endpoint key. Times are milliseconds since 1970; null means never. */
export type GatewayKey = {
  id: string;
  tenant_id: string;
  /** Who made it, or the workload of the run whose key it is. */
  user_id: string;
  /** The endpoints it opens, or null for all of the tenant. */
  workload_ids: readonly string[] | null;
  expires_at: number | null;
  revoked_at: number | null;
  /** Of this key alone. */
  limits: RequestLimits;
  /** Of its user, over all keys. */
  user_limits: RequestLimits;
};

/** The digest of the key that a request carries, or null where none has the right form. */
export function keyDigestOf(request: IncomingMessage): string | null {
  // Two headers that disagree would let a proxy in front and this program see different keys.
  const header = onlyHeader(request.rawHeaders, 'authorization');
  if (header === null) return null;
  const token = /^bearer +(ept_[0-9A-Za-z]+)$/i.exec(header)?.[1];
  if (token === undefined || !checkToken('ept_', token)) return null;
  return digest(token);
}

/** Read as it came: taking all headers apart once more costs more than the rest of this. */
function onlyHeader(raw: readonly string[], name: string): string | null {
  let found: string | null = null;
  for (let at = 0; at < raw.length; at += 2) {
    if (raw[at]?.length !== name.length || raw[at]?.toLowerCase() !== name) continue;
    if (found !== null) return null;
    found = raw[at + 1] ?? null;
  }
  return found;
}

export function isUsable(key: GatewayKey | null, now_ms: number): key is GatewayKey {
  if (key === null || key.revoked_at !== null) return false;
  return key.expires_at === null || key.expires_at > now_ms;
}
