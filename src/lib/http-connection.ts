/**
 * One HTTP/1.1 connection over a stream that somebody else opened: a question, its answer, the
 * next question.
 *
 * Invariants: one question at a time; whoever asks is told one thing of it, an answer or none; a
 * body goes to its reader as it comes, with no more held than came before it was asked for; what
 * breaks never ends like a whole one; what nobody asked for ends the connection. ADR-0071: Node's
 * own client costs more than all the rest of a gateway.
 */
import type { Duplex } from 'node:stream';
import { type AnswerHead, parseAnswerHead, type ReadHead } from './answer-head.ts';
import { type AnswerParser, createAnswerParser, type Parsed } from './answer-parser.ts';

export type HttpAnswer = Pick<AnswerHead, 'status' | 'headers'> & {
  /** Gives the body to this reader, in place of any before. `end` is told once. */
  read(reader: BodyReader): void;
  /** All of it has come. */
  isOver(): boolean;
  pause(): void;
  resume(): void;
  /** Ends the connection; nothing more is told. */
  destroy(): void;
};

export type BodyReader = { data(bytes: Buffer): void; end(is_whole: boolean): void };

export type Asking = {
  answered(answer: HttpAnswer): void;
  /** It ended without an answer; `heard`: though something came. */
  failed(heard: boolean): void;
};

export type HttpConnection = {
  /** Sends a question, head and body: in one piece, and a text is no copy more than its bytes. */
  ask(question: string | Buffer, asking: Asking): void;
  /** A question was asked here before. */
  isUsed(): boolean;
  destroy(): void;
};

export type ConnectionOwner = {
  /** It can be asked again. */
  free(connection: HttpConnection): void;
  ended(connection: HttpConnection): void;
};

/** `readHead`: where several connections lead to one program, it may remember. */
export function createHttpConnection(
  stream: Duplex,
  owner: ConnectionOwner,
  readHead: ReadHead = parseAnswerHead,
): HttpConnection {
  return new Connection(stream, owner, readHead);
}

/** A class, for there are thousands, each with little of its own. */
class Connection implements HttpConnection {
  readonly #stream: Duplex;
  readonly #owner: ConnectionOwner;
  readonly #readHead: ReadHead;
  #current: Answer | null = null;
  #is_used = false;
  #is_ended = false;

  constructor(stream: Duplex, owner: ConnectionOwner, readHead: ReadHead) {
    this.#stream = stream;
    this.#owner = owner;
    this.#readHead = readHead;
    stream.on('data', (chunk: Buffer) => this.#onData(chunk));
    stream.on('end', () => this.#onEnd(this.#current?.parser.isWholeAtEnd() === true));
    stream.on('close', () => this.#onEnd(false));
    // `close` follows, and tells all there is to tell.
    stream.on('error', () => {});
  }

  isUsed(): boolean {
    return this.#is_used;
  }

  ask(question: string | Buffer, asking: Asking): void {
    if (this.#is_ended || this.#current !== null) {
      asking.failed(false);
      return;
    }
    this.#current = new Answer(this, createAnswerParser(this.#readHead), asking);
    this.#stream.write(question);
  }

  destroy(): void {
    this.#current = null;
    this.#stream.destroy();
    if (this.#is_ended) return;
    this.#is_ended = true;
    this.#owner.ended(this);
  }

  #onData(chunk: Buffer): void {
    const one = this.#current;
    if (one === null) {
      this.destroy(); // nobody asked for it: what comes next could not be told from it
      return;
    }
    one.heard = true;
    const parsed = one.parser.push(chunk);
    if (parsed.is === 'bad') this.#breakOff(one);
    else this.#take(one, parsed);
  }

  #take(one: Answer, parsed: Parsed): void {
    one.is_over = parsed.is === 'over';
    if (parsed.head !== null) {
      one.head = parsed.head;
      const { asking } = one;
      // An answer may go on for long, and whoever asked holds the question.
      one.asking = null;
      asking?.answered(one);
    }
    if (parsed.body !== null && one.reader !== null) one.reader.data(parsed.body);
    // In the turn in which an answer is told nobody reads it yet; later, nothing more may come.
    else if (parsed.body !== null && one.held.push(parsed.body) > 1) this.#stream.pause();
    if (one.is_over) this.#finish(one, parsed.has_rest);
  }

  #finish(one: Answer, has_rest: boolean): void {
    if (this.#current !== one) return; // its reader has ended it meanwhile
    this.#current = null;
    this.#is_used = true;
    // A question that was not read to its end would be read as the next one.
    if (has_rest || one.head?.is_kept !== true || this.#stream.writableLength > 0) this.destroy();
    else {
      this.#stream.resume();
      this.#owner.free(this);
    }
    one.reader?.end(true);
  }

  #onEnd(is_whole: boolean): void {
    const one = this.#current;
    if (one === null) {
      this.destroy();
    } else if (is_whole) {
      one.is_over = true;
      this.#finish(one, false);
    } else {
      this.#breakOff(one);
    }
  }

  #breakOff(one: Answer): void {
    this.destroy();
    if (one.asking !== null) one.asking.failed(one.heard);
    else one.reader?.end(false);
  }

  /** For the answer that goes on. */
  isAt(one: Answer): boolean {
    return this.#current === one;
  }

  pause(): void {
    this.#stream.pause();
  }

  resume(): void {
    this.#stream.resume();
  }
}

/** The answer to one question, from its asking on. */
class Answer implements HttpAnswer {
  readonly #connection: Connection;
  readonly parser: AnswerParser;
  /** Null: they have their answer. */
  asking: Asking | null;
  heard = false;
  head: AnswerHead | null = null;
  reader: BodyReader | null = null;
  /** What came before somebody read it. */
  readonly held: Buffer[] = [];
  is_over = false;

  constructor(connection: Connection, parser: AnswerParser, asking: Asking) {
    this.#connection = connection;
    this.parser = parser;
    this.asking = asking;
  }

  get status(): number {
    return this.head?.status ?? 0;
  }

  get headers(): AnswerHead['headers'] {
    return this.head?.headers ?? new Map();
  }

  isOver(): boolean {
    return this.is_over;
  }

  pause(): void {
    if (this.#connection.isAt(this)) this.#connection.pause();
  }

  resume(): void {
    if (this.#connection.isAt(this)) this.#connection.resume();
  }

  destroy(): void {
    if (this.#connection.isAt(this)) this.#connection.destroy();
  }

  read(reader: BodyReader): void {
    this.reader = reader;
    for (const body of this.held.splice(0)) reader.data(body);
    if (this.is_over) reader.end(true);
    else if (!this.#connection.isAt(this)) reader.end(false);
    else this.#connection.resume();
  }
}
