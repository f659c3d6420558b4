/**
 * A failed install of a pinned package, as a code of the table of reasons with its details filled
 * in.
 */
import { formatBytes } from './format.ts';
import type { Details, ReasonCode } from './reasons.ts';

/** What an installer says; `install_failed` and `aborted` are no codes of the table. */
export type InstallFailure = {
  code:
    | 'python_missing'
    | 'download_failed'
    | 'download_corrupt'
    | 'disk_full'
    | 'install_failed'
    | 'aborted';
  details: Record<string, string | number>;
};

/** `otherwise` is the code for what the table has no word of its own for; it takes `why`. */
export function installFailure(
  failure: InstallFailure,
  otherwise: ReasonCode,
): { ok: false; code: ReasonCode; details: Details } {
  const { code, details } = failure;
  if (code === 'install_failed' || code === 'aborted') {
    return { ok: false, code: otherwise, details };
  }
  if (code !== 'disk_full') return { ok: false, code, details };
  const needed = formatBytes(Number(details.needed_bytes));
  const free = formatBytes(Number(details.free_bytes));
  return { ok: false, code, details: { ...details, needed, free } };
}
