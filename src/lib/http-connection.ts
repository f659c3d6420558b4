/**
 * One HTTP/1.1 connection over a stream that somebody else opened: a question, its answer, the
 * next question.
 *
 * Invariants: one question at a time; whoever asks is told one thing of it, an answer or none; a
 * body goes to its reader as it comes, with no more held than came before it was asked for; what
 * breaks never ends like a whole one; what nobody asked for ends the connection. ADR-0072: Node's
 * own client costs more than all the rest of a gateway.
 */
import type { Duplex } from 'node:stream';
import type { AnswerHead } from './answer-head.ts';
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
  /** Sends a question, head and body. */
  ask(question: Buffer, asking: Asking): void;
  /** A question was asked here before. */
  isUsed(): boolean;
  destroy(): void;
};

export type ConnectionOwner = {
  /** It can be asked again. */
  free(connection: HttpConnection): void;
  ended(connection: HttpConnection): void;
};

type Current = {
  parser: AnswerParser;
  asking: Asking;
  heard: boolean;
  head: AnswerHead | null;
  reader: BodyReader | null;
  /** What came before somebody read it. */
  held: Buffer[];
  is_over: boolean;
};

export function createHttpConnection(stream: Duplex, owner: ConnectionOwner): HttpConnection {
  let current: Current | null = null;
  let is_used = false;
  let is_ended = false;
  const connection: HttpConnection = { ask, isUsed: () => is_used, destroy };
  stream.on('data', onData);
  stream.on('end', () => onEnd(current?.parser.isWholeAtEnd() === true));
  stream.on('close', () => onEnd(false));
  // `close` follows, and tells all there is to tell.
  stream.on('error', () => {});

  function ask(question: Buffer, asking: Asking): void {
    if (is_ended || current !== null) {
      asking.failed(false);
      return;
    }
    current = newCurrent(asking);
    stream.write(question);
  }

  function onData(chunk: Buffer): void {
    if (current === null) {
      destroy(); // nobody asked for it: what comes next could not be told from it
      return;
    }
    current.heard = true;
    take(current, current.parser.push(chunk));
  }

  function take(one: Current, parsed: Parsed): void {
    if (parsed.is === 'bad') {
      breakOff(one);
      return;
    }
    one.is_over = parsed.is === 'over';
    if (parsed.head !== null) {
      one.head = parsed.head;
      one.asking.answered(answerOf(one, parsed.head));
    }
    if (parsed.body !== null && one.reader !== null) one.reader.data(parsed.body);
    else if (parsed.body !== null) hold(one, parsed.body);
    if (one.is_over) finish(one, parsed.has_rest);
  }

  /** In the turn in which an answer is told nobody reads it yet; later, nothing more may come. */
  function hold(one: Current, body: Buffer): void {
    if (one.held.push(body) > 1) stream.pause();
  }

  function finish(one: Current, has_rest: boolean): void {
    if (current !== one) return; // its reader has ended it meanwhile
    current = null;
    is_used = true;
    // A question that was not read to its end would be read as the next one.
    if (has_rest || one.head?.is_kept !== true || stream.writableLength > 0) destroy();
    else {
      stream.resume();
      owner.free(connection);
    }
    one.reader?.end(true);
  }

  function onEnd(is_whole: boolean): void {
    if (current === null) {
      destroy();
    } else if (is_whole) {
      current.is_over = true;
      finish(current, false);
    } else {
      breakOff(current);
    }
  }

  function breakOff(one: Current): void {
    current = null;
    destroy();
    if (one.head === null) one.asking.failed(one.heard);
    else one.reader?.end(false);
  }

  function destroy(): void {
    current = null;
    stream.destroy();
    if (is_ended) return;
    is_ended = true;
    owner.ended(connection);
  }

  function answerOf(one: Current, head: AnswerHead): HttpAnswer {
    return {
      status: head.status,
      headers: head.headers,
      isOver: () => one.is_over,
      pause: () => void (current === one && stream.pause()),
      resume: () => void (current === one && stream.resume()),
      destroy: () => void (current === one && destroy()),
      read(reader) {
        one.reader = reader;
        for (const body of one.held.splice(0)) reader.data(body);
        if (one.is_over) reader.end(true);
        else if (current !== one) reader.end(false);
        else stream.resume();
      },
    };
  }

  return connection;
}

function newCurrent(asking: Asking): Current {
  const parser = createAnswerParser();
  return { parser, asking, heard: false, head: null, reader: null, held: [], is_over: false };
}
