/**
 * What tools of a Mac print about whoever uses it, its power, its heat and its memory.
 *
 * Invariants: pure parsers of documented output; what is not understood is null. Fed with recorded
 * text in tests: they have not been run on a Mac.
 */
import type { OwnerReading, PowerReading } from './readings.ts';

/** Of `ioreg -c IOHIDSystem -d 4`: the shortest HIDIdleTime, which is in nanoseconds. */
export function parseHidIdle(text: string): number | null {
  const found = [...text.matchAll(/"HIDIdleTime" = (\d+)/g)].map(([, ns]) => Number(ns) / 1e6);
  return found.length === 0 ? null : Math.floor(Math.min(...found));
}

/** Of `ioreg -n Root -d1`: whether somebody is at the console, and whether its screen is locked. */
export function parseConsole(text: string): { is_signed_in: boolean; is_locked: boolean } | null {
  if (!text.includes('IOConsoleUsers')) return null;
  return {
    is_signed_in: /"kCGSSessionOnConsoleKey"=Yes/.test(text),
    is_locked: /"CGSSessionScreenIsLocked"=Yes/.test(text),
  };
}

/** A locked screen is somebody away, whatever a cat does to the keyboard. */
export function judgeMacOwner(
  idle_ms: number | null,
  console: { is_signed_in: boolean; is_locked: boolean } | null,
): OwnerReading {
  if (console?.is_signed_in === false) return { idle_ms: 'nobody', has_screen: true };
  if (console?.is_locked === true) return { idle_ms: Number.MAX_SAFE_INTEGER, has_screen: true };
  return { idle_ms, has_screen: true };
}

/** Of `pmset -g batt`. */
export function parseBattery(text: string): PowerReading | null {
  const source = /Now drawing from '([^']+)'/.exec(text)?.[1];
  if (source === undefined) return null;
  const percent = /\t(\d{1,3})%/.exec(text)?.[1];
  const on_battery = source === 'Battery Power' || source === 'UPS Power';
  return {
    source: on_battery ? 'battery' : 'mains',
    percent: percent === undefined ? null : Number(percent),
  };
}

/**
 * Of `pmset -g therm`: macOS gives no degrees, only how far it slows the processor down. That is
 * told as degrees that stand for it: 0 where it does not.
 */
export function parseThermal(text: string): number | null {
  const limit = /CPU_Speed_Limit\s*=\s*(\d{1,3})/.exec(text)?.[1];
  if (limit === undefined) return /No thermal warning level/.test(text) ? 0 : null;
  const percent = Number(limit);
  if (percent >= 100) return 0;
  return percent < 50 ? 110 : 96;
}

/** Of `sysctl -n kern.memorystatus_vm_pressure_level`: 1 normal, 2 warning, 4 critical. */
export function parseMemoryPressure(text: string): 'normal' | 'warning' | 'critical' | null {
  const level = text.trim();
  if (level === '1') return 'normal';
  if (level === '2') return 'warning';
  return level === '4' ? 'critical' : null;
}
