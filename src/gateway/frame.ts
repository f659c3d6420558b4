/**
 * Reads one frame of an engine's event stream.
 *
 * Invariants: `mayMatter` is false only for a frame that carries a piece of an answer and nothing
 * else: no error, no end, no count of tokens; it looks at bytes and may say true too often.
 */
export type Frame = {
  event: string | null;
  /** Null: a comment, or nothing at all. */
  data: string | null;
};

export function readFrame(bytes: Buffer, from: number, to: number): Frame {
  const data: string[] = [];
  let event: string | null = null;
  for (const line of bytes.toString('utf8', from, to).split(/\r\n|\r|\n/)) {
    if (line.startsWith('data:')) data.push(restOf(line, 5));
    else if (line.startsWith('event:')) event = restOf(line, 6);
    // llama-server said so once.
    else if (line.startsWith('error:')) data.push(`{"error":${restOf(line, 6)}}`);
  }
  return { event, data: data.length === 0 ? null : data.join('\n') };
}

function restOf(line: string, from: number): string {
  return line.charCodeAt(from) === space ? line.slice(from + 1) : line.slice(from);
}

const quote = 0x22;
const space = 0x20;
const colon = 0x3a;
const brace = 0x7b;
const closing_brace = 0x7d;
const line_feed = 0x0a;
const carriage_return = 0x0d;
const letter_n = 0x6e;

/** By their first byte, for no two begin alike. */
const keys: (Buffer | undefined)[] = [];
for (const key of ['usage"', 'timings"', 'error"', 'response"', 'finish_reason"']) {
  keys[key.charCodeAt(0)] = Buffer.from(key);
}
const finish_reason = keys['finish_reason'.charCodeAt(0)];

export function mayMatter(bytes: Buffer, from: number, to: number): boolean {
  if (!isPlain(bytes, from) || !endsWell(bytes, to)) return true;
  for (let at = from + 5; at < to; at += 1) {
    if (bytes[at] !== quote) continue;
    const key = keys[bytes[at + 1] ?? 0];
    if (key === undefined || !startsWith(bytes, at + 1, key)) continue;
    if (key !== finish_reason || !isNull(bytes, at + 1 + key.length)) return true;
  }
  return false;
}

/** `data: {`, or an event of the responses API, whose kind stands in its data as well. */
function isPlain(bytes: Buffer, from: number): boolean {
  if (startsWith(bytes, from, event_start)) return true;
  if (!startsWith(bytes, from, data_start)) return false;
  const at = bytes[from + 5] === space ? from + 6 : from + 5;
  return bytes[at] === brace;
}

/** An object that was not cut short, as far as its last byte tells. */
function endsWell(bytes: Buffer, to: number): boolean {
  let at = to - 1;
  while (bytes[at] === line_feed || bytes[at] === carriage_return) at -= 1;
  return bytes[at] === closing_brace;
}

const event_start = Buffer.from('event: response.');
const data_start = Buffer.from('data:');

function startsWith(bytes: Buffer, at: number, start: Buffer): boolean {
  for (let index = 0; index < start.length; index += 1) {
    if (bytes[at + index] !== start[index]) return false;
  }
  return true;
}

/** `: null` follows. */
function isNull(bytes: Buffer, from: number): boolean {
  let at = from;
  while (bytes[at] === space || bytes[at] === colon) at += 1;
  return bytes[at] === letter_n;
}
