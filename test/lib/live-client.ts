/**
 * A client of the live stream over real HTTP, that waits for what it expects instead of sleeping.
 */
import { get, type IncomingMessage } from 'node:http';

export type Heard = { id: string | null; type: string; data: Record<string, unknown> };

export type LiveClient = {
  status: number;
  /** All that was heard so far. */
  heard: Heard[];
  /** Resolves once `test` holds for what was heard; rejects when the stream ends first. */
  until(test: (heard: Heard[]) => boolean): Promise<Heard[]>;
  /** Resolves when the server ends the stream. */
  ended: Promise<void>;
  close(): void;
  /** The last id that was heard, for going on after it. */
  lastId(): string | null;
};

export async function followLive(
  url: string,
  token: string | null,
  last_event_id: string | null = null,
): Promise<LiveClient> {
  const response = await open(url, token, last_event_id);
  const heard: Heard[] = [];
  const waiters = new Set<() => void>();
  const ended = Promise.withResolvers<void>();
  let is_over = false;
  let rest = '';
  response.setEncoding('utf8');
  response.on('data', (text: string) => {
    const parts = (rest + text).split('\n\n');
    rest = parts.pop() ?? '';
    for (const part of parts) take(part, heard);
    for (const look of [...waiters]) look();
  });
  response.on('error', () => {});
  response.on('close', () => {
    is_over = true;
    ended.resolve();
    for (const look of [...waiters]) look();
  });
  return {
    status: response.statusCode ?? 0,
    heard,
    ended: ended.promise,
    until: (test) =>
      new Promise((resolve, reject) => {
        const look = () => {
          const holds = test(heard);
          if (!holds && !is_over) return;
          waiters.delete(look);
          if (holds) resolve(heard);
          else reject(new Error(`the stream ended after ${JSON.stringify(heard)}`));
        };
        waiters.add(look);
        look();
      }),
    close: () => void response.destroy(),
    lastId: () => heard.findLast((one) => one.id !== null)?.id ?? null,
  };
}

function open(url: string, token: string | null, last_event_id: string | null) {
  const headers = {
    ...(token === null ? {} : { authorization: `Bearer ${token}` }),
    ...(last_event_id === null ? {} : { 'last-event-id': last_event_id }),
  };
  return new Promise<IncomingMessage>((resolve, reject) => {
    const request = get(`${url}/v1/events`, { headers, agent: false }, resolve);
    request.on('error', reject);
  });
}

function take(text: string, heard: Heard[]): void {
  const fields = new Map<string, string>();
  for (const line of text.split('\n')) {
    const end = line.indexOf(':');
    if (end > 0) fields.set(line.slice(0, end), line.slice(end + 1).trim());
  }
  const type = fields.get('event');
  const data = fields.get('data');
  if (type === undefined || data === undefined) return;
  heard.push({ id: fields.get('id') ?? null, type, data: JSON.parse(data) });
}
