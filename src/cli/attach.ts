/**
 * Stays with a workload until it runs, fails or is stopped, and shows its stages on stderr:
 * rewritten in place on a terminal, one line for each change elsewhere.
 *
 * Invariants: only looks; leaving (Ctrl-C, time given) changes nothing for the workload.
 */
import type { Workload } from '../contract/workloads.ts';
import type { Client } from './client.ts';
import type { Context, Io } from './io.ts';
import { openWatch } from './live.ts';
import { cutTo, say, tint } from './output.ts';
import { type Mark, nextStep, nothingShown, type StageLine } from './stage-view.ts';

export type Ended = 'running' | 'failed' | 'stopped' | 'deleted' | 'interrupted' | 'timed_out';
export type AttachOutcome = { workload: Workload; ended: Ended };

/** Watches from `first` on. `interrupt` aborts on Ctrl-C; `timeout_ms` null waits without end. */
export async function attach(
  context: Context,
  client: Client,
  first: Workload,
  options: { interrupt: AbortSignal; timeout_ms: number | null },
): Promise<AttachOutcome> {
  const { clock } = context.io;
  const screen = openScreen(context);
  const watch = openWatch(context, client, first.id);
  const started = clock.monotonic();
  let workload = first;
  let shown = nothingShown;
  try {
    for (;;) {
      const step = nextStep(shown, workload);
      shown = step.shown;
      screen.show(step.lines, step.live);
      const ended = endOf(workload);
      if (ended !== null) return { workload, ended };
      if (options.interrupt.aborted) return { workload, ended: 'interrupted' };
      const spent_ms = clock.monotonic() - started;
      const left_ms = (options.timeout_ms ?? Number.POSITIVE_INFINITY) - spent_ms;
      if (left_ms <= 0) return { workload, ended: 'timed_out' };
      await watch.wait(left_ms, options.interrupt);
      workload = await client.show(workload.id);
    }
  } catch (error) {
    screen.close();
    say(context, `${workload.name} is recorded: it goes on as far as it can.`);
    throw error;
  } finally {
    watch.close();
    screen.close();
  }
}

/**
 * What ends the wait. Stopped with the intent to run is only on its way to a new run, unless it was
 * stopped for being idle.
 */
function endOf(workload: Workload): Ended | null {
  const { state, intent, park_cause } = workload;
  if (state === 'stopped' && park_cause === 'idle') return 'stopped';
  if (state === 'running' && intent === 'running') return 'running';
  if (state === 'failed') return 'failed';
  if (intent === 'deleted' || state === 'deleted') return 'deleted';
  return intent === 'stopped' ? 'stopped' : null;
}

/** A signal that Ctrl-C aborts, until it is closed. */
export function openInterrupt(io: Io): { signal: AbortSignal; close(): void } {
  const controller = new AbortController();
  const close = io.onInterrupt(() => controller.abort());
  return { signal: controller.signal, close };
}

function openScreen(context: Context) {
  const { stderr } = context.io;
  const rewrites = stderr.isTTY === true && context.config.can_rewrite;
  let has_live = false;
  const clear = () => {
    if (has_live) stderr.write('\r\u001b[K');
    has_live = false;
  };
  return {
    show(lines: StageLine[], live: StageLine | null) {
      clear();
      for (const line of lines) {
        // On a terminal the live line says the same, and better.
        if (!rewrites || line.mark !== 'running') say(context, paint(context, line));
      }
      if (!rewrites || live === null) return;
      stderr.write(paint(context, { ...live, text: cutTo(live.text, (stderr.columns || 80) - 3) }));
      has_live = true;
    },
    close: clear,
  };
}

const marks = { done: '✔', running: '…', failed: '✘', note: '·' } as const satisfies Record<
  Mark,
  string
>;
const tints = { done: 'green', running: 'dim', failed: 'red', note: 'yellow' } as const;

function paint(context: Context, line: StageLine): string {
  return `${tint(context, context.io.stderr, tints[line.mark], marks[line.mark])} ${line.text}`;
}
