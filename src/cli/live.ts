/**
 * Waiting for news of a workload: by the control plane's live stream, and by looking again and
 * again where there is none.
 *
 * Invariants: news is only a reason to look, never the truth; without a word on the stream a look
 * is taken anyway now and then; a stream that breaks costs nothing but more looks.
 */
import { createSignal } from '../lib/signal.ts';
import type { Client } from './client.ts';
import type { Context } from './io.ts';
import { createSseParser } from './sse.ts';

export type Watch = {
  /** Resolves when there may be news, at the latest after `ms`, or when `stop` aborts. */
  wait(ms: number, stop: AbortSignal): Promise<void>;
  close(): void;
};

/** How often to look where nothing tells of news; and where something does. */
const look_ms = 250;
const look_anyway_ms = 5000;

/** Watches one workload, by its id. */
export function openWatch(context: Context, client: Client, workload_id: string): Watch {
  const { clock } = context.io;
  const news = createSignal();
  const closing = new AbortController();
  let is_told = false;
  void listen(client, closing.signal, (data) => {
    is_told = true;
    const about = (data as { workload_id?: string }).workload_id;
    if (about === undefined || about === workload_id) news.notify();
  }).finally(() => {
    is_told = false;
    news.notify();
  });
  return {
    async wait(ms, stop) {
      if (is_told) await news.wait(clock, Math.min(ms, look_anyway_ms), stop);
      else await clock.sleep(Math.min(ms, look_ms), stop);
    },
    close: () => closing.abort(),
  };
}

/** Calls `told` with each event until the stream ends. Never rejects. */
async function listen(
  client: Client,
  signal: AbortSignal,
  told: (data: unknown) => void,
): Promise<void> {
  try {
    const response = await client.stream('/v1/events', signal);
    if (response.statusCode !== 200) return void response.destroy();
    const parser = createSseParser();
    for await (const piece of response) {
      for (const data of parser.push(piece as Buffer)) told(JSON.parse(data));
    }
  } catch {
    // Whoever waits looks by itself, and says what is wrong when that fails too.
  }
}
