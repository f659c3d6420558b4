/**
 * The key by which a client knows our SSH server: Ed25519, in the formats that SSH gives it.
 */
import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';

export type HostKey = {
  private_key: KeyObject;
  /** As SSH sends it. */
  blob: Buffer;
};

/** Throws where the text is no Ed25519 key. */
export function readHostKey(pem: string): HostKey {
  const private_key = createPrivateKey(pem);
  if (private_key.asymmetricKeyType !== 'ed25519') throw new Error('no Ed25519 key');
  const { x } = createPublicKey(private_key).export({ format: 'jwk' });
  const raw = Buffer.from(x ?? '', 'base64url');
  return { private_key, blob: Buffer.concat([field('ssh-ed25519'), field(raw)]) };
}

/** One line as in known_hosts, without the names. */
export function hostKeyLine(key: HostKey): string {
  return `ssh-ed25519 ${key.blob.toString('base64')}`;
}

function field(value: string | Buffer): Buffer {
  const bytes = Buffer.from(value);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}
