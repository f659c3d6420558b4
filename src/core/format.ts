/**
 * Figures made readable: bytes, memory, durations, ages. One spelling for screen, CLI and reasons.
 */

const units = ['B', 'kB', 'MB', 'GB', 'TB'];

/** 93400000 gives "93.4 MB" (powers of 1000, as disks and downloads are counted). */
export function formatBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (Math.round(value) >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** 2147483648 gives "2 GiB" (powers of 1024, as memory is sold). */
export function formatMemory(bytes: number): string {
  const gib = bytes / 2 ** 30;
  if (gib >= 1) return `${Number.isInteger(gib) ? gib : gib.toFixed(1)} GiB`;
  return `${Math.round(bytes / 2 ** 20)} MiB`;
}

/** 350 gives "350 ms", 12400 gives "12.4 s", 192000 gives "3m 12s", 7260000 gives "2h 1m". */
export function formatDuration(ms: number): string {
  if (Math.round(ms) < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ${seconds % 60}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60 * 48) return `${Math.floor(minutes / 60)}h ${minutes % 60}m`;
  return `${Math.floor(minutes / 1440)} days`;
}

/** How long ago, for tables: "just now", "12 s ago", "3 min ago", "2 h ago", "4 days ago". */
export function formatAgo(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 2) return 'just now';
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} days ago`;
}
