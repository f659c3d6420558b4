/**
 * Opens a page in the user's browser.
 *
 * Invariants: returns within 5 s; false where no desktop is there or nothing could be started, so
 * the caller prints the address whatever happens. A link given here is good for one use: another
 * user of this machine who reads it from the list of processes comes too late, or is seen.
 */
import { exec } from '../lib/exec.ts';
import { desktopEnv } from './config.ts';

export async function openBrowser(
  url: string,
  env: Record<string, string> = desktopEnv(),
  platform: string = process.platform,
): Promise<boolean> {
  const has_desktop = platform === 'darwin' || 'DISPLAY' in env || 'WAYLAND_DISPLAY' in env;
  if (!has_desktop) return false;
  const opener = platform === 'darwin' ? 'open' : 'xdg-open';
  const result = await exec(opener, [url], { env, timeout_ms: 5000 });
  return result.outcome === 'exited' && result.code === 0;
}
