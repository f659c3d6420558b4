/**
 * A log that a test reads.
 */
import type { Log, LogFields } from '../../src/lib/log.ts';

export type LogLine = LogFields & { level: string; message: string };

/** A log that keeps its lines, with the fields that were bound to it. */
export function keepingLog(lines: LogLine[], bound: LogFields = {}): Log {
  const at = (level: string) => (fields: LogFields, message: string) =>
    void lines.push({ ...bound, ...fields, level, message });
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: (fields) => keepingLog(lines, { ...bound, ...fields }),
  };
}
