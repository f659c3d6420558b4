/**
 * Says what a file that is no GGUF is instead, from its first bytes and never from its name.
 */

/** Bytes needed to tell. */
export const sniff_bytes = 64;

type Kind = { is: (head: Uint8Array, text: string) => boolean; what: string };

const kinds: readonly Kind[] = [
  { is: (head) => head.length === 0, what: 'This is an empty file' },
  {
    // Opcode PROTO with a protocol number; PyTorch's old checkpoints begin so too.
    is: (head) => head[0] === 0x80 && (head[1] ?? 0) >= 1 && (head[1] ?? 0) <= 5,
    what: 'This is a Python pickle, not GGUF; loading one runs its code',
  },
  {
    is: (_, text) => text.startsWith('PK\u0003\u0004') || text.startsWith('PK\u0005\u0006'),
    what: 'This is a ZIP archive (as PyTorch checkpoints are), not GGUF',
  },
  {
    is: (_, text) => /^\s*<(!doctype|html|\?xml|head|body)/i.test(text),
    what: 'This is a web page, not GGUF; the download was answered with a page',
  },
  {
    is: (_, text) => text.startsWith('version https://git-lfs'),
    what: 'This is a Git LFS pointer, not GGUF; the model itself was not downloaded',
  },
  {
    is: (_, text) => /^.{8}\{"/s.test(text),
    what: 'This is a safetensors file, not GGUF',
  },
  {
    is: (_, text) => ['lmgg', 'tjgg', 'algg', 'fmgg'].includes(text.slice(0, 4)),
    what: 'This is a file of the time before GGUF, which must be converted',
  },
  { is: (_, text) => text.startsWith('\u007fELF'), what: 'This is a program, not GGUF' },
  { is: (_, text) => text.startsWith('\u0089HDF'), what: 'This is an HDF5 file, not GGUF' },
  { is: (_, text) => text.startsWith('\u0093NUMPY'), what: 'This is a NumPy file, not GGUF' },
  { is: (head) => head[0] === 0x1f && head[1] === 0x8b, what: 'This is a gzip file, not GGUF' },
  { is: (_, text) => /^#!/.test(text), what: 'This is a script, not GGUF' },
  { is: (_, text) => /^\s*[{[]/.test(text), what: 'This is JSON, not GGUF' },
  {
    is: (head) => head.every((byte) => byte === 0),
    what: 'This is a file of zeros, not GGUF; the download may have stopped',
  },
];

/** One sentence about a file that does not begin with the magic. */
export function sniff(head: Uint8Array): string {
  const text = Buffer.from(head).toString('latin1');
  const kind = kinds.find((one) => one.is(head, text));
  return kind ? `${kind.what}.` : 'It does not begin with the letters GGUF.';
}
