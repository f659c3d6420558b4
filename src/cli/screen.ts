/**
 * Tables on a terminal that stay, and follow what they show.
 *
 * Invariants: the terminal is left as it was found, however it ends; a frame is one write that
 * overwrites the last one, so nothing flickers; a control plane that goes away is said, and what
 * was seen last stays on the screen.
 */
import { CliError } from './cli-error.ts';
import { exitCode } from './exit-codes.ts';
import type { Context, Io } from './io.ts';
import { alignColumns, cutTo, oneLine, tint } from './output.ts';

export type ScreenTable = { headings: string[]; rows: string[][]; first_figure: number };

export type Screen<Seen> = {
  look(): Promise<Seen>;
  /** Its first line. */
  title(seen: Seen): string;
  tables(seen: Seen): ScreenTable[];
};

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

/** Does a command stay here, or print once? */
export function staysOn(context: Context, once: boolean | undefined): boolean {
  return context.io.stdout.isTTY === true && context.config.can_rewrite && once !== true;
}

/** Stays until somebody leaves. */
export async function follow<Seen>(
  context: Context,
  screen: Screen<Seen>,
  first: Seen,
): Promise<number> {
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
      stdout.write(frameOf(context, screen, shown, problem));
      wakeUp = new AbortController();
      await clock.sleep(looked_at + look_every_ms - clock.monotonic(), wakeUp.signal);
      if (keys.left()) break;
      if (clock.monotonic() - looked_at < look_every_ms) continue;
      // What hangs does not keep anybody from leaving.
      const looking = screen.look().then(
        (seen) => {
          shown = seen;
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

type Line = { text: string; is: 'row' | 'heading' | 'space' };

/** The whole screen: no line is left from the frame before it. */
function frameOf<Seen>(
  context: Context,
  screen: Screen<Seen>,
  seen: Seen,
  problem: string | null,
): string {
  const { stdout, clock } = context.io;
  const width = stdout.columns || 80;
  const height = Math.max(4, stdout.rows || 24);
  const title = `${screen.title(seen)}   ${timeOf(clock.now())}   q quits`;
  const body = screen.tables(seen).flatMap(linesOf).slice(1);
  const room = height - 2 - (problem === null ? 0 : 1);
  const fitting = body.length > room ? body.slice(0, room - 1) : body;
  const more = body.slice(fitting.length).filter(({ is }) => is === 'row').length;
  const lines = [
    cutTo(title, width),
    ...(problem === null ? [] : [tint(context, stdout, 'red', cutTo(oneLine(problem), width))]),
    '',
    ...fitting.map(({ text, is }) => {
      const line = cutTo(text, width);
      return is === 'heading' ? tint(context, stdout, 'bold', line) : line;
    }),
    ...(more > 0 ? [`… and ${more} more`] : []),
  ];
  return frame_begins + lines.map((line) => `${line}${csi}K`).join('\r\n') + frame_ends;
}

function linesOf({ headings, rows, first_figure }: ScreenTable): Line[] {
  const cells = rows.map((row) => row.map((cell) => oneLine(cell) || '-'));
  const [heading = '', ...others] = alignColumns([headings, ...cells], first_figure);
  return [
    { text: '', is: 'space' },
    { text: heading, is: 'heading' },
    ...others.map((text): Line => ({ text, is: 'row' })),
  ];
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
