/**
 * The deployment's key: 32 bytes in a file that only its owner reads, under which secrets are
 * sealed.
 *
 * Invariants: made once, on disk before anything says that it exists; a deployment that had a key
 * does not start without it or with another, unless told to forget what it sealed (ADR-0032). The
 * file holds one key a line, the one that seals first: to change it, put a line of 64 hex digits
 * before the old one and start again.
 */
import { createHash } from 'node:crypto';
import { existsSync, lstatSync } from 'node:fs';
import { join } from 'node:path';
import { EinsoraError } from '../contract/errors.ts';
import { isErrno, readIfThere, writeDurably } from '../lib/files.ts';
import type { Random } from '../lib/random.ts';
import { Secret } from '../lib/secret.ts';
import { readDeploymentKey } from '../store/secrets.ts';
import type { EinsoraStore } from '../store/transactions.ts';

export type DeploymentKey = { key_id: string; key: Secret };

/** The keys of this deployment: the one that seals, then those that only open. */
export async function openDeploymentKeys(deps: {
  store: EinsoraStore;
  random: Random;
  data_dir: string;
  renew?: boolean;
}): Promise<[DeploymentKey, ...DeploymentKey[]]> {
  const { store, random, data_dir, renew = false } = deps;
  const path = join(data_dir, 'deployment-key');
  const known = await store.read(readDeploymentKey, {});
  const [first, ...others] = readKeys(path);
  const is_ours = [first, ...others].some((one) => one?.key_id === known);
  if (first !== undefined && (known === null || is_ours)) {
    if (first.key_id !== known) await store.transact('noteDeploymentKey', { key_id: first.key_id });
    return [first, ...others];
  }
  if (known !== null && !renew) {
    const code = existsSync(path) ? 'deployment_key_wrong' : 'deployment_key_missing';
    throw new EinsoraError(code, { path });
  }
  if (known !== null) await store.transact('forgetSecrets', {});
  const made = `${Buffer.from(random.bytes(32)).toString('hex')}\n`;
  writeDurably(path, made);
  return openDeploymentKeys({ store, random, data_dir });
}

function readKeys(path: string): DeploymentKey[] {
  refuseExposed(path);
  return (readIfThere(path) ?? '').split('\n').flatMap(parseLine);
}

function parseLine(line: string): DeploymentKey[] {
  const hex = line.trim();
  if (!/^[0-9a-f]{64}$/.test(hex)) return [];
  const key_id = createHash('sha256')
    .update('einsora deployment key\n')
    .update(Buffer.from(hex, 'hex'))
    .digest('hex')
    .slice(0, 32);
  return [{ key_id, key: new Secret(hex) }];
}

function refuseExposed(path: string): void {
  try {
    const stats = lstatSync(path);
    if (!stats.isFile() || (stats.mode & 0o077) !== 0) {
      throw new EinsoraError('deployment_key_exposed', { path });
    }
  } catch (error) {
    if (!isErrno(error, 'ENOENT')) throw error;
  }
}
