/**
 * Reads one frame of an engine's event stream.
 *
 * Invariants: `mayMatter` is false only for a frame that carries a piece of an answer and nothing
 * else: no error, no end, no count of tokens; it does not parse, and may say true too often.
 */
export type Frame = {
  event: string | null;
  /** Null: a comment, or nothing at all. */
  data: string | null;
};

export function readFrame(bytes: Buffer, from: number, to: number): Frame {
  const text = bytes.toString('utf8', from, to);
  // One line of data and its end, as nearly all are.
  if (text.startsWith('data:') && text.indexOf('\n') === text.length - 2 && !text.includes('\r')) {
    return { event: null, data: restOf(text.slice(0, -2), 5) };
  }
  const data: string[] = [];
  let event: string | null = null;
  for (const line of text.split(/\r\n|\r|\n/)) {
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

/** `data: {`, or an event of the responses API, whose kind stands in its data as well. */
const plain = /^(?:data: ?\{|event: response\.)/;
/** An object that was not cut short, as far as its last byte tells. */
const whole = /\}[\r\n]+$/;
const weighty = /"(?:usage|timings|error|response)"|"finish_reason" *: *[^n ]/;

export function mayMatter(bytes: Buffer, from: number, to: number): boolean {
  const text = bytes.toString('latin1', from, to);
  return !plain.test(text) || weighty.test(text) || !whole.test(text.slice(-5));
}

const space = 0x20;
