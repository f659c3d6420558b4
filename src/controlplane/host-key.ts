/**
 * The key by which SSH clients know this deployment: Ed25519, in a file that only its owner reads.
 *
 * Invariants: made once, and never changed by us: clients have it pinned. One that others can read
 * or that is no such key is refused, not replaced.
 */
import { generateKeyPairSync } from 'node:crypto';
import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import { type HostKey, readHostKey } from '../access/ssh/host-key.ts';
import { EinsoraError } from '../contract/errors.ts';
import { readIfThere, writeDurably } from '../lib/files.ts';

export function openHostKey(data_dir: string): HostKey {
  const path = join(data_dir, 'ssh-host-key');
  const known = readIfThere(path);
  if (known === null) {
    const { privateKey } = generateKeyPairSync('ed25519');
    writeDurably(path, String(privateKey.export({ type: 'pkcs8', format: 'pem' })));
    return openHostKey(data_dir);
  }
  const stats = lstatSync(path);
  if (!stats.isFile() || (stats.mode & 0o077) !== 0) {
    throw new EinsoraError('ssh_host_key_exposed', { path });
  }
  try {
    return readHostKey(known);
  } catch (error) {
    throw new EinsoraError('ssh_host_key_unreadable', { path }, error);
  }
}
