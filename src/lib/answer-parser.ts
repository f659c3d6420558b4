/**
 * Reads one HTTP/1.1 answer off a connection: its head, and its body out of what frames it.
 *
 * Invariants: any cutting of the bytes gives the same answer; what is told to come first
 * (`100 Continue`) is left out; a head is bounded; an answer is over only where its framing says
 * so, or where the connection's own end frames it.
 */
import { type AnswerHead, parseAnswerHead } from './answer-head.ts';
import { type ChunkFraming, createChunkFraming } from './chunk-framing.ts';

export type Parsed = {
  /** bad: it is no answer. */
  is: 'more' | 'over' | 'bad';
  /** In the one piece with which it is complete. */
  head: AnswerHead | null;
  /** What of the piece is body, in one piece. */
  body: Buffer | null;
  /** Over, and bytes came after it. */
  has_rest: boolean;
};

export type AnswerParser = {
  /** Takes what came. Nothing more after `over` and `bad`. */
  push(chunk: Buffer): Parsed;
  /** The connection has ended: is the answer whole by that? */
  isWholeAtEnd(): boolean;
};

const head_bytes = 16 * 1024;
const head_end = Buffer.from('\r\n\r\n');
const bad: Parsed = { is: 'bad', head: null, body: null, has_rest: false };
const more: Parsed = { is: 'more', head: null, body: null, has_rest: false };

export function createAnswerParser(): AnswerParser {
  let head: AnswerHead | null = null;
  /** What came of a head that is not complete. */
  let begun: Buffer | null = null;
  /** Of heads that only announce another. */
  let announced = 0;
  let left = 0;
  let chunks: ChunkFraming | null = null;

  function pushHead(chunk: Buffer): Parsed {
    const bytes = begun === null ? chunk : Buffer.concat([begun, chunk]);
    const end = bytes.indexOf(head_end);
    if (announced + (end < 0 ? bytes.length : end) > head_bytes) return bad;
    begun = end < 0 ? bytes : null;
    if (end < 0) return more;
    const parsed = parseAnswerHead(bytes.toString('latin1', 0, end));
    const rest = bytes.subarray(end + head_end.length);
    if (parsed === null || parsed.status === 101) return bad;
    if (parsed.status < 200) {
      announced += end;
      return rest.length === 0 ? more : pushHead(rest);
    }
    head = parsed;
    if (parsed.framing === 'chunked') chunks = createChunkFraming(head_bytes);
    else left = parsed.framing === 'until_end' ? Number.POSITIVE_INFINITY : parsed.framing;
    return { ...pushBody(rest), head: parsed };
  }

  function pushBody(bytes: Buffer): Parsed {
    if (chunks !== null) return pushChunks(chunks, bytes);
    const body = bytes.length <= left ? bytes : bytes.subarray(0, left);
    left -= body.length;
    return parsedOf(left === 0 ? 'over' : 'more', body, body.length < bytes.length);
  }

  return {
    push: (chunk) => (head === null ? pushHead(chunk) : pushBody(chunk)),
    isWholeAtEnd: () => head?.framing === 'until_end',
  };
}

function pushChunks(chunks: ChunkFraming, bytes: Buffer): Parsed {
  const pieces: Buffer[] = [];
  const end = chunks.take(bytes, 0, pieces);
  if (end === 'bad') return bad;
  // In one piece: who takes it on, sends it on in one.
  const [first] = pieces;
  const body = pieces.length > 1 ? Buffer.concat(pieces) : (first ?? null);
  return parsedOf(end === 'more' ? 'more' : 'over', body, end !== 'more' && end < bytes.length);
}

function parsedOf(is: 'more' | 'over', body: Buffer | null, has_rest: boolean): Parsed {
  return { is, head: null, body: body === null || body.length === 0 ? null : body, has_rest };
}
