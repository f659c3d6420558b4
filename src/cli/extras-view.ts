/**
 * Variables, keys and the idle policy of a workload, in words.
 */
import type { ShownSpec } from '../contract/workloads.ts';
import { formatDuration } from '../core/format.ts';

/** `MODE, TOKEN (secret hf-token)`: no value is ever shown. */
export function variablesText(env: ShownSpec['env']): string | null {
  const names = Object.entries(env).map(([name, value]) =>
    typeof value === 'string' ? name : `${name} (secret ${value.secret})`,
  );
  return names.length === 0 ? null : names.join(', ');
}

/** The comments of the keys, or how many there are. */
export function keysText(keys: string | null): string | null {
  if (keys === null) return null;
  const lines = keys.split('\n').filter((line) => line.trim() !== '');
  const names = lines.map(
    (line) => line.trim().split(/\s+/).slice(2).join(' ') || 'without a name',
  );
  return names.join(', ');
}

export function idleText(policy: ShownSpec['idle_policy']): string | null {
  return policy === null ? null : `after ${formatDuration(policy.after_ms)} of nothing`;
}
