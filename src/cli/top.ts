/**
 * `einsora top`: what the workloads use, now; on a terminal it stays, and follows.
 *
 * Invariants: the terminal is left as it was found, however it ends; a frame is one write that
 * overwrites the last one, so nothing flickers; a control plane that goes away is said, and what
 * was seen last stays on the screen; elsewhere than on a terminal it prints once.
 */
import type { Workload } from '../contract/workloads.ts';
import { CliError } from './cli-error.ts';
import { type Client, openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context, Io } from './io.ts';
import { alignColumns, cutTo, oneLine, printJson, printTable, say, tint } from './output.ts';
import { first_figure, use_headings, useRow } from './use-view.ts';

export type TopOptions = { json?: boolean; once?: boolean };

const look_every_ms = 2000;
const csi = '\u001b[';
/** Another screen without a cursor, and back. */
const enter_screen = `${csi}?1049h${csi}?25l`;
const leave_screen = `${csi}?25h${csi}?1049l`;
/** Terminals that know it show what stands between these at once. */
const frame_begins = `${csi}?2026h${csi}H`;
/** q, Ctrl-C and Ctrl-D: in raw mode they are keys like others. */
const leaving_keys = ['q', 'Q', '\u0003', '\u0004'];
const frame_ends = `${csi}J${csi}?2026l`;

export async function top(context: Context, options: TopOptions): Promise<number> {
  const client = openClient(context);
  const first = await look(client);
  if (options.json) {
    printJson(context, { items: first });
    return exitCode('ok');
  }
  const { stdout } = context.io;
  const stays = stdout.isTTY === true && context.config.can_rewrite && options.once !== true;
  if (stays) return follow(context, client, first);
  const now = context.io.clock.now();
  if (first.length === 0) say(context, 'No workloads.');
  else printTable(context, use_headings, rowsOf(first, now), first_figure);
  return exitCode('ok');
}

/** Those that run first, then by name: so that a row stays where it is. */
async function look(client: Client): Promise<Workload[]> {
  const rank = ({ state }: Workload) => (state === 'running' ? 0 : 1);
  const all = await client.list(false);
  return all.sort((a, b) => rank(a) - rank(b) || (a.name < b.name ? -1 : 1));
}

function rowsOf(workloads: Workload[], now: number): string[][] {
  return workloads.map((workload) => useRow(workload, now));
}

async function follow(context: Context, client: Client, first: Workload[]): Promise<number> {
  const { clock, stdout } = context.io;
  let wakeUp = new AbortController();
  const keys = readKeys(context.io, () => wakeUp.abort());
  const onResize = () => wakeUp.abort();
  stdout.on('resize', onResize);
  stdout.write(enter_screen);
  let shown = first;
  let problem: string | null = null;
  let looked_at = clock.monotonic();
  try {
    while (!keys.left()) {
      stdout.write(frameOf(context, shown, problem));
      wakeUp = new AbortController();
      await clock.sleep(looked_at + look_every_ms - clock.monotonic(), wakeUp.signal);
      if (keys.left()) break;
      if (clock.monotonic() - looked_at < look_every_ms) continue;
      // What hangs does not keep anybody from leaving.
      const looking = look(client).then(
        (all) => {
          shown = all;
          problem = null;
        },
        (error: unknown) => {
          if (!(error instanceof CliError)) throw error;
          problem = error.message;
        },
      );
      await Promise.race([looking, keys.leaving]);
      looked_at = clock.monotonic();
    }
    return exitCode('ok');
  } finally {
    stdout.off('resize', onResize);
    keys.close();
    stdout.write(leave_screen);
  }
}

/** The whole screen: no line is left from the frame before it. */
function frameOf(context: Context, workloads: Workload[], problem: string | null): string {
  const { stdout, clock } = context.io;
  const width = stdout.columns || 80;
  const height = Math.max(4, stdout.rows || 24);
  const running = workloads.filter(({ state }) => state === 'running').length;
  const count = `${workloads.length} ${workloads.length === 1 ? 'workload' : 'workloads'}`;
  const title = `${count}, ${running} running   ${timeOf(clock.now())}   q quits`;
  const cells = rowsOf(workloads, clock.now()).map((row) =>
    row.map((cell) => oneLine(cell) || '-'),
  );
  const [heading = '', ...rows] = alignColumns([use_headings, ...cells], first_figure);
  const room = height - 3 - (problem === null ? 0 : 1);
  const more = rows.length - room;
  const fitting = more > 0 ? rows.slice(0, room - 1) : rows;
  const lines = [
    cutTo(title, width),
    ...(problem === null ? [] : [tint(context, stdout, 'red', cutTo(oneLine(problem), width))]),
    '',
    tint(context, stdout, 'bold', cutTo(heading, width)),
    ...fitting.map((row) => cutTo(row, width)),
    ...(more > 0 ? [`… and ${rows.length - fitting.length} more`] : []),
  ];
  return frame_begins + lines.map((line) => `${line}${csi}K`).join('\r\n') + frame_ends;
}

/** 14:02:11, by the clock of who looks. */
function timeOf(now: number): string {
  return new Date(now).toTimeString().slice(0, 8);
}

/** Keys as they are pressed: q and Ctrl-C leave. */
function readKeys(io: Io, pressed: () => void) {
  const { stdin } = io;
  let is_left = false;
  let leaveNow = () => {};
  const leaving = new Promise<void>((resolve) => {
    leaveNow = resolve;
  });
  const leave = () => {
    is_left = true;
    leaveNow();
    pressed();
  };
  const onData = (chunk: Buffer | string) => {
    if ([...String(chunk)].some((key) => leaving_keys.includes(key))) leave();
  };
  const undo = io.onInterrupt(leave);
  const is_typed = stdin.isTTY === true;
  if (is_typed) {
    stdin.setRawMode?.(true);
    stdin.on('data', onData);
    stdin.resume();
  }
  return {
    left: () => is_left,
    leaving,
    close() {
      undo();
      if (!is_typed) return;
      stdin.off('data', onData);
      stdin.setRawMode?.(false);
      stdin.pause();
    },
  };
}
