/**
 * Server-sent events out of a body that arrives in pieces of any size.
 *
 * Invariants: lines end with CR, LF or CRLF, wherever a piece ends; a character split between two
 * pieces stays whole; other fields are skipped; an event is given at its blank line,
 * so one that was cut off is never given.
 */
export type SseParser = {
  /** The `data` of each event that this piece completes. */
  push(piece: Uint8Array): string[];
};

/** Longest event that is kept; a longer one is a fault of the server. */
const event_limit_chars = 4 * 1024 * 1024;

/** `onComment`: is given the text of each comment, in its order among the events. */
export function createSseParser(onComment: (text: string) => void = () => {}): SseParser {
  const decoder = new TextDecoder();
  let rest = '';
  let data: string[] = [];
  let after_cr = false;

  function takeLine(line: string, events: string[]): void {
    if (line === '') {
      if (data.length > 0) events.push(data.join('\n'));
      data = [];
    } else if (line === 'data' || line.startsWith('data:')) {
      data.push(line.slice(5).replace(/^ /, ''));
    } else if (line.startsWith(':')) onComment(line.slice(1).trim());
  }

  return {
    push(piece) {
      const events: string[] = [];
      let text = decoder.decode(piece, { stream: true });
      if (after_cr && text !== '') {
        after_cr = false;
        // The LF of a CRLF that was split: its line was given at the CR already.
        if (text.startsWith('\n')) text = text.slice(1);
      }
      rest += text;
      for (;;) {
        const end = rest.search(/[\r\n]/);
        if (end === -1) break;
        const is_cr = rest[end] === '\r';
        if (is_cr && end === rest.length - 1) after_cr = true;
        const width = is_cr && rest[end + 1] === '\n' ? 2 : 1;
        takeLine(rest.slice(0, end), events);
        rest = rest.slice(end + width);
      }
      if (rest.length > event_limit_chars) throw new Error('an event of the stream is too large');
      return events;
    },
  };
}
