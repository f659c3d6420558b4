/**
 * Public keys as OpenSSH writes them, one a line: those that may sign in to a workload over SSH.
 *
 * Invariants: a key is kept as its type and bytes, which agree; what a line says beyond that
 * (options before it) is refused, for it would not be obeyed. Certificates and keys that need a
 * touch are refused: our server cannot check them.
 */

export type AuthorizedKey = { type: KeyType; blob: Uint8Array };

const types = [
  'ssh-ed25519',
  'ecdsa-sha2-nistp256',
  'ecdsa-sha2-nistp384',
  'ecdsa-sha2-nistp521',
  'ssh-rsa',
] as const;
type KeyType = (typeof types)[number];

const keys_at_most = 20;
const least_rsa_bits = 2048;
const base64 = /^[A-Za-z0-9+/]+={0,2}$/;

/** The keys, or a sentence that says what is wrong with the text. */
export function parseAuthorizedKeys(text: string): AuthorizedKey[] | string {
  const lines = text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'));
  if (lines.length === 0) return 'holds no public key';
  if (lines.length > keys_at_most) return `holds more than ${keys_at_most} keys`;
  const keys: AuthorizedKey[] = [];
  for (const line of lines) {
    const key = parseLine(line);
    if (typeof key === 'string') return key;
    keys.push(key);
  }
  return keys;
}

function parseLine(line: string): AuthorizedKey | string {
  if (line.includes('PRIVATE KEY')) return 'is a private key: give the one that ends in .pub';
  const [first = '', second = ''] = line.split(/[ \t]+/);
  const type = types.find((one) => one === first);
  if (type === undefined) {
    if (/^(?:sk-|ssh-dss|.*-cert-)/.test(first)) return `is of a kind that is not taken: ${first}`;
    return types.some((one) => line.includes(`${one} `))
      ? 'has options before the key, which would not be obeyed: leave them out'
      : 'is no public key in the form of OpenSSH';
  }
  if (!base64.test(second) || second.length % 4 !== 0) return 'is cut off, or mistyped';
  const blob = decode(second);
  const name = readField(blob, 0);
  if (name === null || asText(name.value) !== type) return 'is cut off, or mistyped';
  return checkFields(type, blob, name.next) ?? { type, blob };
}

/** Each kind has its fields and nothing after them. */
function checkFields(type: KeyType, blob: Uint8Array, start: number): string | null {
  const cut_off = 'is cut off, or mistyped';
  const first = readField(blob, start);
  const second = first === null ? null : readField(blob, first.next);
  if (first === null) return cut_off;
  if (type === 'ssh-ed25519') {
    return first.value.length === 32 && first.next === blob.length ? null : cut_off;
  }
  if (second === null || second.next !== blob.length) return cut_off;
  if (type !== 'ssh-rsa') return asText(first.value) === type.slice(11) ? null : cut_off;
  // The modulus, with a zero in front where its first bit is set.
  const bits = second.value[0] === 0 ? second.value.length - 1 : second.value.length;
  return bits * 8 >= least_rsa_bits ? null : `is an RSA key of fewer than ${least_rsa_bits} bits`;
}

/** Is it the same key, whatever its comment? */
export function isSameKey(key: AuthorizedKey, type: string, blob: Uint8Array): boolean {
  return (
    key.type === type &&
    key.blob.length === blob.length &&
    key.blob.every((byte, index) => byte === blob[index])
  );
}

type Field = { value: Uint8Array; next: number };

function readField(blob: Uint8Array, at: number): Field | null {
  if (at + 4 > blob.length) return null;
  const length = new DataView(blob.buffer, blob.byteOffset).getUint32(at);
  const next = at + 4 + length;
  return next > blob.length ? null : { value: blob.subarray(at + 4, next), next };
}

function decode(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

function asText(bytes: Uint8Array): string {
  return String.fromCharCode(...bytes);
}
