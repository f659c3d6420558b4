/**
 * The program's own log: one JSON line per entry on stderr or in a file, never on stdout.
 *
 * Invariants: values are capped, so that no caller can flood the log with one field; a Secret
 * prints as redacted; a line of debug or info may wait for others for a moment, a warning or an
 * error is written before its call returns, with all before it. Log lines of a request carry its
 * request_id (the server binds it with `child`).
 */
import { pino } from 'pino';
import type { Clock } from './clock.ts';
import { openLogFile } from './log-file.ts';

export type LogFields = Record<string, string | number | boolean | null | undefined>;

export type Log = {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
  child(fields: LogFields): Log;
};

const value_limit = 500;

export type OpenLog = Log & {
  /** Writes what waits: to be called when the process ends, however it does. */
  flush(): void;
};

/** Opens a log. `destination` is a file path, or 2 for stderr. */
export function openLog(options: {
  level: string;
  destination: string | number;
  clock: Pick<Clock, 'after'>;
}): OpenLog {
  const { flush, write } = openLogFile(options.destination, options.clock);
  const logger = pino({ level: options.level, base: null }, { write });
  return { ...wrap(logger, flush), flush };
}

export const silentLog: Log = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silentLog,
};

/** What is bound is kept here: a child of pino's costs more than a line. */
function wrap(logger: pino.Logger, flush: () => void, bound: LogFields = {}): Log {
  const whole = (fields: LogFields) => ({ ...bound, ...capped(fields) });
  return {
    debug: (fields, message) => logger.debug(whole(fields), message),
    info: (fields, message) => logger.info(whole(fields), message),
    warn(fields, message) {
      logger.warn(whole(fields), message);
      flush();
    },
    error(fields, message) {
      logger.error(whole(fields), message);
      flush();
    },
    child: (fields) => wrap(logger, flush, whole(fields)),
  };
}

/** As they are, where none is long: nearly always. */
function capped(fields: LogFields): LogFields {
  let result = fields;
  for (const key in fields) {
    const value = fields[key];
    if (typeof value !== 'string' || value.length <= value_limit) continue;
    result = { ...result, [key]: `${value.slice(0, value_limit)}…` };
  }
  return result;
}

/** One line for an unknown thrown value, with its causes. */
export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause === undefined ? '' : `: ${describeError(error.cause)}`;
  return `${error.message}${cause}`;
}
