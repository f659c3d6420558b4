/**
 * `einsora events`: a workload's timeline, oldest first, and with -f what follows.
 *
 * Invariants: each event is printed once, in order; following ends by Ctrl-C or once it is deleted.
 */
import type { WorkloadEvent } from '../contract/workloads.ts';
import { formatAgo } from '../core/format.ts';
import { openInterrupt } from './attach.ts';
import { type Client, openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { openWatch, type Watch } from './live.ts';
import { oneLine, printData, printJson, printJsonLine, printTable } from './output.ts';
import { onWorkload } from './workload-name.ts';

export type EventsOptions = { follow?: boolean; json?: boolean };

/** At the latest, where nothing tells of news. */
const poll_ms = 5000;

export async function events(
  context: Context,
  name: string,
  options: EventsOptions,
): Promise<number> {
  const client = openClient(context);
  const reader = openReader(client, name);
  const first = await onWorkload(client, name, () => reader.read());
  if (options.follow) {
    const watch = openWatch(context, client, (await client.show(name)).id);
    const shown = { reader, watch, json: options.json === true };
    return follow(context, shown, first).finally(() => watch.close());
  }
  if (options.json) {
    printJson(context, { items: first });
  } else {
    const now = context.io.clock.now();
    const rows = first.map((event) => eventCells(event, now));
    printTable(context, ['WHEN', 'STATE', 'BY', 'WHAT'], rows);
  }
  return exitCode('ok');
}

async function follow(
  context: Context,
  shown: { reader: { read(): Promise<WorkloadEvent[]> }; watch: Watch; json: boolean },
  first: WorkloadEvent[],
): Promise<number> {
  const { reader, watch, json } = shown;
  const { clock } = context.io;
  const interrupt = openInterrupt(context.io);
  try {
    for (let news = first; ; news = await reader.read()) {
      for (const event of news) {
        if (json) printJsonLine(context, event);
        else printData(context, eventLine(event, clock.now()));
      }
      if (news.at(-1)?.to_state === 'deleted') return exitCode('ok');
      await watch.wait(poll_ms, interrupt.signal);
      if (interrupt.signal.aborted) return exitCode('interrupted');
    }
  } finally {
    interrupt.close();
  }
}

/** Gives the events that were not given yet. */
function openReader(client: Client, name: string): { read(): Promise<WorkloadEvent[]> } {
  let cursor: string | null = null;
  let last_number = 0;
  return {
    async read() {
      const fresh: WorkloadEvent[] = [];
      for (;;) {
        const page = await client.events(name, cursor);
        fresh.push(...page.items.filter((event) => event.number > last_number));
        last_number = fresh.at(-1)?.number ?? last_number;
        if (page.next_cursor === null || page.next_cursor === cursor) return fresh;
        cursor = page.next_cursor;
      }
    },
  };
}

function eventCells(event: WorkloadEvent, now: number): string[] {
  return [formatAgo(now - event.at), changeText(event), event.actor, event.message];
}

function eventLine(event: WorkloadEvent, now: number): string {
  const [when, change, actor, message] = eventCells(event, now).map(oneLine);
  return [when?.padEnd(12), change?.padEnd(24), actor?.padEnd(10), message].join('  ').trimEnd();
}

function changeText(event: WorkloadEvent): string {
  if (event.to_state === null) return event.kind;
  return event.from_state === null ? event.to_state : `${event.from_state} -> ${event.to_state}`;
}
