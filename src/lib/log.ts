/**
 * The program's own log: one JSON line per entry on stderr or in a file, never on stdout.
 *
 * Invariants: values are capped, so that no caller can flood the log with one field; a Secret
 * prints as redacted. Log lines of a request carry its request_id (the server binds it with
 * `child`).
 */
import { pino } from 'pino';

export type LogFields = Record<string, string | number | boolean | null | undefined>;

export type Log = {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
  child(fields: LogFields): Log;
};

const value_limit = 500;

/** Opens a log. `destination` is a file path, or 2 for stderr. */
export function openLog(options: { level: string; destination: string | number }): Log {
  const target = pino.destination({
    dest: options.destination,
    sync: true,
    mkdir: true,
    mode: 0o600,
  });
  return wrap(pino({ level: options.level, base: null }, target));
}

export const silentLog: Log = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silentLog,
};

function wrap(logger: pino.Logger): Log {
  return {
    debug: (fields, message) => logger.debug(capped(fields), message),
    info: (fields, message) => logger.info(capped(fields), message),
    warn: (fields, message) => logger.warn(capped(fields), message),
    error: (fields, message) => logger.error(capped(fields), message),
    child: (fields) => wrap(logger.child(capped(fields))),
  };
}

function capped(fields: LogFields): LogFields {
  return Object.fromEntries(
    Object.entries(fields).map(([key, value]) => [
      key,
      typeof value === 'string' && value.length > value_limit
        ? `${value.slice(0, value_limit)}…`
        : value,
    ]),
  );
}

/** One line for an unknown thrown value, with its causes. */
export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause === undefined ? '' : `: ${describeError(error.cause)}`;
  return `${error.message}${cause}`;
}
