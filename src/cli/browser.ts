/**
 * Opens a page in the user's browser, by a private file that sends it on.
 *
 * Invariants: the address may carry a secret, so no process is given it: the opener's argument is a
 * file of mode 0600 in the data folder, which only this user can read; returns within 5 s; false
 * where no desktop is there or nothing could be started, so the caller prints the address whatever
 * happens. A browser may read the file long after its opener ended, so `einsora up` takes it away:
 * after a while, and when it ends.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { exec } from '../lib/exec.ts';
import { writeDurably } from '../lib/files.ts';
import { desktopEnv } from './config.ts';

/** How long a browser that has to be started first may take until it has read the file. */
export const page_file_ms = 60_000;

export async function openBrowser(
  url: string,
  data_dir: string,
  env: Record<string, string> = desktopEnv(),
  platform: string = process.platform,
): Promise<boolean> {
  const has_desktop = platform === 'darwin' || 'DISPLAY' in env || 'WAYLAND_DISPLAY' in env;
  if (!has_desktop) return false;
  const opener = platform === 'darwin' ? 'open' : 'xdg-open';
  const path = fileIn(data_dir);
  try {
    writeDurably(path, redirection(url));
  } catch {
    return false; // the folder is somebody else's, or its disk is full
  }
  const argument = pathToFileURL(path).href;
  const result = await exec(opener, [argument], { env, timeout_ms: 5000 });
  const opened = result.outcome === 'exited' && result.code === 0;
  if (!opened) forgetPage(data_dir);
  return opened;
}

/** Takes the file away; there may be none. */
export function forgetPage(data_dir: string): void {
  rmSync(fileIn(data_dir), { force: true });
}

function fileIn(data_dir: string): string {
  return join(data_dir, 'open.html');
}

/** A page without scripts that goes to `url`, with a link where the browser does not. */
function redirection(url: string): string {
  const address = url.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
  return [
    '<!doctype html>',
    '<meta charset="utf-8">',
    '<meta name="referrer" content="no-referrer">',
    `<meta http-equiv="refresh" content="0; url=${address}">`,
    '<title>Einsora</title>',
    `<a href="${address}">Open Einsora</a>`,
    '',
  ].join('\n');
}
