/**
 * `einsora logs`: what the current run printed, its end (--tail), and with -f what follows.
 *
 * Invariants: control characters are dropped; a line that was cut at the start of the window is not
 * shown; following goes over to the next run, and ends where nothing more can come.
 */
import { isSettled } from '../core/states.ts';
import { plainText } from '../lib/text.ts';
import { openInterrupt } from './attach.ts';
import { type Client, type LogChunk, openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { printJson, printJsonLine, say } from './output.ts';
import { onWorkload } from './workload-name.ts';

export type LogsOptions = {
  follow?: boolean;
  tail?: number;
  /** Of an endpoint with several: which one. */
  replica?: number;
  json?: boolean;
};

/** Reads what one run printed, from an offset on. */
type Read = (offset: number) => Promise<LogChunk>;

const poll_ms = 500;
const line_guess_bytes = 200;
const window_limit_bytes = 16 * 1024 * 1024;

export async function logs(context: Context, name: string, options: LogsOptions): Promise<number> {
  const client = openClient(context);
  const { tail, replica } = options;
  const read: Read = (offset) => client.logs(name, offset, replica);
  const first = await onWorkload(client, name, () =>
    tail === undefined ? readOn(read, 0) : readTail(read, tail),
  );
  if (options.follow) {
    const over = () => isOver(client, name);
    return follow(context, { read, over }, first, options.json === true);
  }
  if (options.json) {
    const { text, run_epoch, end } = first;
    printJson(context, { workload: name, run_epoch, end, text });
  } else {
    write(context, first.text);
    if (first.text === '' && tail !== 0) say(context, 'Nothing is printed yet.');
  }
  return exitCode('ok');
}

/** From an offset to what is the end right now. */
async function readOn(read: Read, offset: number): Promise<LogChunk> {
  let all = await read(offset);
  for (;;) {
    const more = await read(all.next_offset);
    if (more.run_epoch !== all.run_epoch || more.text === '') return { ...all, end: more.end };
    all = { ...more, text: all.text + more.text };
  }
}

/** The last lines: a window from the end, widened until it holds enough of them. */
async function readTail(read: Read, lines: number): Promise<LogChunk> {
  if (lines === 0) return { ...(await readOn(read, -1)), text: '' };
  for (let window = 4096 + lines * line_guess_bytes; ; window *= 4) {
    const size = Math.min(window, window_limit_bytes);
    const chunk = await readOn(read, -size);
    const starts_inside = chunk.next_offset > size;
    const whole = starts_inside ? chunk.text.slice(chunk.text.indexOf('\n') + 1) : chunk.text;
    const split = whole.split('\n');
    const count = whole.endsWith('\n') ? split.length - 1 : split.length;
    if (starts_inside && count < lines && size < window_limit_bytes) continue;
    const kept = split.slice(Math.max(0, count - lines)).join('\n');
    return { ...chunk, text: kept };
  }
}

async function follow(
  context: Context,
  { read, over }: { read: Read; over: () => Promise<boolean> },
  first: LogChunk,
  json: boolean,
): Promise<number> {
  const interrupt = openInterrupt(context.io);
  let chunk = first;
  try {
    for (;;) {
      if (chunk.text !== '' && json) printJsonLine(context, chunk);
      else write(context, chunk.text);
      if (chunk.end && (await over())) return exitCode('ok');
      if (chunk.text === '') await context.io.clock.sleep(poll_ms, interrupt.signal);
      if (interrupt.signal.aborted) return exitCode('interrupted');
      const next: LogChunk = await read(chunk.next_offset);
      if (next.run_epoch === chunk.run_epoch) {
        chunk = next;
      } else {
        say(context, `· run ${next.run_epoch} begins`);
        chunk = await read(0);
      }
    }
  } finally {
    interrupt.close();
  }
}

/** No further run comes without a person. */
async function isOver(client: Client, name: string): Promise<boolean> {
  const { state } = await client.show(name);
  return isSettled(state) && state !== 'running';
}

function write(context: Context, text: string): void {
  if (text !== '') context.io.stdout.write(plainText(text));
}
