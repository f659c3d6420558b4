/**
 * Says what a file is by its first bytes and never by its name: GGUF, safetensors, or what it is
 * instead.
 *
 * Invariants: a file that could be safetensors is taken for it, so that its own rules say what is
 * wrong; the length of a header may read like the start of a pickle by chance.
 */

/** Bytes needed to tell; a tar archive says what it is at byte 257. */
export const sniff_bytes = 512;

export type ModelFormat = 'gguf' | 'safetensors';

type Kind = { is: (head: Uint8Array, text: string) => boolean; what: string };

const neither = 'neither GGUF nor safetensors';

const kinds: readonly Kind[] = [
  { is: (head) => head.length === 0, what: 'This is an empty file' },
  {
    // Opcode PROTO with a protocol number; PyTorch's old checkpoints begin so too.
    is: (head) => head[0] === 0x80 && (head[1] ?? 0) >= 1 && (head[1] ?? 0) <= 5,
    what: `This is a Python pickle, ${neither}; loading one runs its code`,
  },
  {
    // Protocol 0 and 1 have no mark of their own: a global, or a list or dict with names.
    is: (_, text) => /^(?:\((?:[ldt]p\d+\n)?)*[ci][\w.]+\n[\w.]+\n/.test(text),
    what: `This is a Python pickle, ${neither}; loading one runs its code`,
  },
  {
    is: (_, text) => text.startsWith('PK\u0003\u0004') || text.startsWith('PK\u0005\u0006'),
    what: `This is a ZIP archive (as PyTorch checkpoints are), ${neither}`,
  },
  {
    is: (_, text) => /^\s*<(!doctype|html|\?xml|head|body)/i.test(text),
    what: `This is a web page, ${neither}; the download was answered with a page`,
  },
  {
    is: (_, text) => text.startsWith('version https://git-lfs'),
    what: `This is a Git LFS pointer, ${neither}; the model itself was not downloaded`,
  },
  {
    is: (_, text) => ['lmgg', 'tjgg', 'algg', 'fmgg'].includes(text.slice(0, 4)),
    what: 'This is a file of the time before GGUF, which must be converted',
  },
  { is: (_, text) => text.startsWith('\u007fELF'), what: `This is a program, ${neither}` },
  { is: (_, text) => text.startsWith('\u0089HDF'), what: `This is an HDF5 file, ${neither}` },
  { is: (_, text) => text.startsWith('\u0093NUMPY'), what: `This is a NumPy file, ${neither}` },
  { is: (head) => head[0] === 0x1f && head[1] === 0x8b, what: `This is a gzip file, ${neither}` },
  { is: (_, text) => text.startsWith("7z\u00bc\u00af'"), what: `This is a 7z archive, ${neither}` },
  {
    is: (_, text) => text.slice(257, 262) === 'ustar',
    what: `This is a tar archive (as old PyTorch checkpoints are), ${neither}`,
  },
  { is: (_, text) => /^#!/.test(text), what: `This is a script, ${neither}` },
  { is: (_, text) => /^\s*[{[]/.test(text), what: `This is JSON, ${neither}` },
  {
    is: (head) => head.every((byte) => byte === 0),
    what: `This is a file of zeros, ${neither}; the download may have stopped`,
  },
];

/** Which validator has to decide about a file that begins so, or null when it is no model. */
export function formatOf(head: Uint8Array): ModelFormat | null {
  const text = Buffer.from(head).toString('latin1');
  if (text.startsWith('GGUF')) return 'gguf';
  return /^.{8}\{\s*(?:"|\}|$)/s.test(text) ? 'safetensors' : null;
}

/** One sentence about a file that is neither. */
export function sniff(head: Uint8Array): string {
  const text = Buffer.from(head).toString('latin1');
  const kind = kinds.find((one) => one.is(head, text));
  return kind ? `${kind.what}.` : 'It begins like neither of them.';
}
