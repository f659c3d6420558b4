/**
 * Whether somebody is at a Linux machine: what logind and `who` answer, and what that means.
 *
 * Invariants: pure; a session at a screen that says nobody is idle counts as in use, because
 * desktops that do not tell say so too; a greeter and a service are nobody.
 */
import type { OwnerReading } from './readings.ts';

export type Session = {
  /** x11, wayland, mir, tty, web, unspecified. */
  type: string;
  /** user, greeter, lock-screen, background, manager. */
  class: string;
  is_idle: boolean;
  /** Wall-clock milliseconds; null where it was never said. */
  idle_since: number | null;
};

/** Object paths of what `busctl --json=short call … ListSessions` prints; null: not understood. */
export function parseSessionPaths(text: string): string[] | null {
  const answer = parse(text) as { data?: unknown[][] } | null;
  const [rows] = answer?.data ?? [];
  if (!Array.isArray(rows)) return null;
  return rows.flatMap((row: unknown) => {
    const path = Array.isArray(row) ? row[4] : undefined;
    const is_path = typeof path === 'string' && /^\/org\/freedesktop\/login1\/[\w/]+$/.test(path);
    return is_path ? [path] : [];
  });
}

export const session_properties = ['Type', 'Class', 'IdleHint', 'IdleSinceHint'];

/** Of `busctl --json=short get-property … Type Class IdleHint IdleSinceHint`, a line for each. */
export function parseSession(text: string): Session | null {
  const values = text
    .trim()
    .split('\n')
    .map((line) => (parse(line) as { data?: unknown } | null)?.data);
  const [type, kind, is_idle, since_us] = values;
  if (typeof type !== 'string' || typeof kind !== 'string') return null;
  if (typeof is_idle !== 'boolean' || typeof since_us !== 'number') return null;
  const idle_since = since_us > 0 ? Math.floor(since_us / 1000) : null;
  return { type, class: kind, is_idle, idle_since };
}

const screens = ['x11', 'wayland', 'mir'];

export function judgeSessions(sessions: readonly Session[], now: number): OwnerReading {
  const people = sessions.filter((one) => one.class === 'user' || one.class === 'lock-screen');
  const has_screen = people.some(({ type }) => screens.includes(type));
  if (people.length === 0) return { idle_ms: 'nobody', has_screen: false };
  const idle = people.map((one) => {
    if (screens.includes(one.type) && !one.is_idle) return 0;
    return one.idle_since === null ? null : Math.max(0, now - one.idle_since);
  });
  return { idle_ms: leastOf(idle), has_screen };
}

/** Of `who -u`: how long each terminal was idle; null: not understood. */
export function parseWho(text: string): number[] | null {
  const idle: number[] = [];
  for (const line of text.split('\n').filter((one) => one.trim() !== '')) {
    const match =
      /\s(?:\d{4}-\d\d-\d\d|[A-Z][a-z]{2} [ \d]\d) \d\d:\d\d\s+(\.|old|\?|\d\d:\d\d)\s/.exec(
        `${line} `,
      );
    const said = match?.[1];
    if (said === undefined) return null;
    if (said === '.') idle.push(0);
    else if (said === 'old') idle.push(24 * 3600_000);
    else if (said !== '?') {
      const [hours = 0, minutes = 0] = said.split(':').map(Number);
      idle.push((hours * 60 + minutes) * 60_000);
    }
  }
  return idle;
}

/** Without logind: terminals, and whether a screen's server is there, of which nobody can tell. */
export function judgeTerminals(idle: readonly number[] | null, has_screen: boolean): OwnerReading {
  if (has_screen || idle === null) return { idle_ms: null, has_screen };
  return { idle_ms: idle.length === 0 ? 'nobody' : leastOf(idle), has_screen };
}

/** Somebody of whom it is not known when they were seen last may be there now. */
function leastOf(idle: readonly (number | null)[]): number | null {
  const known = idle.filter((one) => one !== null);
  const least = Math.min(...known);
  if (known.length < idle.length) return least === 0 ? 0 : null;
  return least;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
