/**
 * One live stream: a bounded queue of events for one client, given as fast as the client takes.
 *
 * Invariants: memory is bounded: a client that is too slow loses its queue and is told `reset`; one
 * that took nothing for half a minute while something waited is hung up on, as is one whose right
 * to listen has ended.
 */
import type { LiveEvent } from '../contract/events.ts';
import { limits } from '../contract/limits.ts';
import type { Clock } from '../lib/clock.ts';

export type LiveStream = {
  readonly body: ReadableStream<Uint8Array>;
  push(text: string): void;
  /** Puts what came before in front of all that waits. */
  begin(texts: string[]): void;
  /** Says something while nothing else is said, and looks whether anybody listens. */
  beat(): void;
  end(): void;
};

export type LiveStreamOptions = {
  clock: Clock;
  /** Ends the connection, whatever is still to be sent. */
  hangUp: () => void;
  /** Called once, however it ends. */
  ended: () => void;
};

const encoder = new TextEncoder();
/** Time for a client to take the end of the stream before its connection is ended. */
const farewell_ms = 500;

export function createLiveStream({ clock, hangUp, ended }: LiveStreamOptions): LiveStream {
  let waiting: string[] = [];
  let waiting_chars = 0;
  let held_back = true;
  let taken_at = clock.monotonic();
  let is_over = false;
  const outlet = openOutlet({ wanted: give, gone: () => void over() });

  function give(): void {
    if (held_back || waiting.length === 0 || !outlet.give(waiting.join(''))) return;
    waiting = [];
    waiting_chars = 0;
    taken_at = clock.monotonic();
  }

  function over(): boolean {
    if (is_over) return false;
    is_over = true;
    ended();
    return true;
  }

  function push(text: string): void {
    if (is_over) return;
    waiting.push(text);
    waiting_chars += text.length;
    if (waiting_chars > limits.live_queue_chars) {
      const reset = eventText({ type: 'reset', data: { why: 'too_slow' } }, null);
      waiting = [reset];
      waiting_chars = reset.length;
    }
    give();
  }

  return {
    body: outlet.body,
    push,
    begin(texts) {
      waiting = [...texts, ...waiting];
      held_back = false;
      give();
    },
    beat() {
      const is_stuck = waiting.length > 0;
      if (is_stuck && clock.monotonic() - taken_at > limits.live_silence_ms) {
        if (over()) hangUp();
      } else if (!is_stuck) push(': \n\n');
    },
    end() {
      if (!over()) return;
      outlet.close();
      clock.after(farewell_ms, hangUp);
    },
  };
}

type Outlet = {
  body: ReadableStream<Uint8Array>;
  /** True where the reader wanted something, and got this. */
  give(text: string): boolean;
  close(): void;
};

/** A stream that keeps nothing itself: it says when its reader wants more. */
function openOutlet(on: { wanted: () => void; gone: () => void }): Outlet {
  type Controller = ReadableStreamDefaultController<Uint8Array>;
  let controller: Controller | null = null;
  let satisfied: (() => void) | null = null;
  const satisfy = () => {
    satisfied?.();
    satisfied = null;
  };
  const body = new ReadableStream<Uint8Array>(
    {
      start(given) {
        controller = given;
      },
      pull: () =>
        new Promise<void>((resolve) => {
          satisfied = resolve;
          on.wanted();
        }),
      cancel() {
        satisfy();
        on.gone();
      },
    },
    { highWaterMark: 0 },
  );
  return {
    body,
    give(text) {
      if (satisfied === null) return false;
      controller?.enqueue(encoder.encode(text));
      satisfy();
      return true;
    },
    close() {
      controller?.close();
      satisfy();
    },
  };
}

/** An event as it goes over the wire. */
export function eventText(event: LiveEvent, id: string | null): string {
  const mark = id === null ? '' : `id: ${id}\n`;
  return `${mark}event: ${event.type}\ndata: ${JSON.stringify(event.data)}\n\n`;
}
