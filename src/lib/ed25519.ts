/**
 * Signatures by Ed25519: keys from random bytes, as PEM for the disk and base64 for the wire.
 *
 * Invariants: the same seed gives the same key; a check of anything that is no key or no signature
 * is false, and throws nothing.
 */
import { createPrivateKey, createPublicKey, sign, verify } from 'node:crypto';
import { Secret } from './secret.ts';

export const seed_bytes = 32;
/** What stands before the seed in PKCS #8, and before the point in SubjectPublicKeyInfo. */
const private_head = Buffer.from('302e020100300506032b657004220420', 'hex');
const public_head = Buffer.from('302a300506032b6570032100', 'hex');

/** A private key as PEM. */
export function makePrivateKey(seed: Uint8Array): Secret {
  if (seed.length !== seed_bytes) throw new Error(`a key needs ${seed_bytes} random bytes`);
  const key = Buffer.concat([private_head, seed]);
  const made = createPrivateKey({ key, format: 'der', type: 'pkcs8' });
  return new Secret(made.export({ format: 'pem', type: 'pkcs8' }).toString());
}

/** The public key, base64. Throws where the text is no private key. */
export function publicKeyOf(private_key: Secret): string {
  const spki = createPublicKey(private_key.reveal()).export({ format: 'der', type: 'spki' });
  return spki.subarray(public_head.length).toString('base64');
}

export function signText(private_key: Secret, text: string): string {
  return sign(null, Buffer.from(text), private_key.reveal()).toString('base64');
}

export function isSignature(public_key: string, text: string, signature: string): boolean {
  try {
    const key = Buffer.concat([public_head, Buffer.from(public_key, 'base64')]);
    const made = createPublicKey({ key, format: 'der', type: 'spki' });
    return verify(null, Buffer.from(text), made, Buffer.from(signature, 'base64'));
  } catch {
    return false;
  }
}
