/**
 * Reads one HTTP/1.1 answer off a connection: its head, and its body out of what frames it.
 *
 * Invariants: any cutting of the bytes gives the same answer; what is told to come first
 * (`100 Continue`) is left out; a head is bounded; an answer is over only where its framing says
 * so, or where the connection's own end frames it.
 */
import { type AnswerHead, parseAnswerHead, type ReadHead } from './answer-head.ts';
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

export function createAnswerParser(readHead: ReadHead = parseAnswerHead): AnswerParser {
  return new Parser(readHead);
}

/** A class, for there is one for each open answer. */
class Parser implements AnswerParser {
  readonly #readHead: ReadHead;
  #head: AnswerHead | null = null;
  /** What came of a head that is not complete. */
  #begun: Buffer | null = null;
  /** Of heads that only announce another. */
  #announced = 0;
  #left = 0;
  #chunks: ChunkFraming | null = null;

  constructor(readHead: ReadHead) {
    this.#readHead = readHead;
  }

  push(chunk: Buffer): Parsed {
    return this.#head === null ? this.#pushHead(chunk) : this.#pushBody(chunk);
  }

  isWholeAtEnd(): boolean {
    return this.#head?.framing === 'until_end';
  }

  #pushHead(chunk: Buffer): Parsed {
    const bytes = this.#begun === null ? chunk : Buffer.concat([this.#begun, chunk]);
    const end = bytes.indexOf(head_end);
    if (this.#announced + (end < 0 ? bytes.length : end) > head_bytes) return bad;
    this.#begun = end < 0 ? bytes : null;
    if (end < 0) return more;
    const head = this.#readHead(bytes.toString('latin1', 0, end));
    const rest = bytes.subarray(end + head_end.length);
    if (head === null || head.status === 101) return bad;
    if (head.status < 200) {
      this.#announced += end;
      return rest.length === 0 ? more : this.#pushHead(rest);
    }
    this.#head = head;
    const { framing } = head;
    if (framing === 'chunked') this.#chunks = createChunkFraming(head_bytes);
    else this.#left = framing === 'until_end' ? Number.POSITIVE_INFINITY : framing;
    const parsed = this.#pushBody(rest);
    return { is: parsed.is, head, body: parsed.body, has_rest: parsed.has_rest };
  }

  #pushBody(bytes: Buffer): Parsed {
    if (this.#chunks !== null) return pushChunks(this.#chunks, bytes);
    const body = bytes.length <= this.#left ? bytes : bytes.subarray(0, this.#left);
    this.#left -= body.length;
    return parsedOf(this.#left === 0 ? 'over' : 'more', body, body.length < bytes.length);
  }
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
