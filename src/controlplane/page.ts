/**
 * The pages of Solo: this machine, what can run here and why not the rest; keys; signing in,
 * following an invitation or a reset link. The files are in web/; they ask the API like any other
 * client.
 *
 * Invariants: no inline script or style, so the policy forbids all of it; nothing of a page is
 * secret, what it shows comes from the API by the session.
 */
import { readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { isId } from '../core/ids.ts';

const files: Record<string, { file: string; type: string }> = {
  '/': { file: 'index.html', type: 'text/html; charset=utf-8' },
  '/sign-in': { file: 'sign-in.html', type: 'text/html; charset=utf-8' },
  '/join': { file: 'join.html', type: 'text/html; charset=utf-8' },
  '/reset': { file: 'join.html', type: 'text/html; charset=utf-8' },
  '/keys': { file: 'keys.html', type: 'text/html; charset=utf-8' },
  '/assets/ask.js': { file: 'ask.js', type: 'text/javascript; charset=utf-8' },
  '/assets/forms.js': { file: 'forms.js', type: 'text/javascript; charset=utf-8' },
  '/assets/join.js': { file: 'join.js', type: 'text/javascript; charset=utf-8' },
  '/assets/key-made.js': { file: 'key-made.js', type: 'text/javascript; charset=utf-8' },
  '/assets/key-row.js': { file: 'key-row.js', type: 'text/javascript; charset=utf-8' },
  '/assets/keys.css': { file: 'keys.css', type: 'text/css; charset=utf-8' },
  '/assets/keys.js': { file: 'keys.js', type: 'text/javascript; charset=utf-8' },
  '/assets/machine.js': { file: 'machine.js', type: 'text/javascript; charset=utf-8' },
  '/assets/open.js': { file: 'open.js', type: 'text/javascript; charset=utf-8' },
  '/assets/sign-in.js': { file: 'sign-in.js', type: 'text/javascript; charset=utf-8' },
  '/assets/style.css': { file: 'style.css', type: 'text/css; charset=utf-8' },
  '/assets/terminal.css': { file: 'terminal.css', type: 'text/css; charset=utf-8' },
  '/assets/terminal.js': { file: 'terminal.js', type: 'text/javascript; charset=utf-8' },
};

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "form-action 'none'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** Of packages: only the page of a terminal asks for them. */
const packaged: Record<string, { package: string; file: string; type: string }> = {
  '/assets/xterm.mjs': {
    ...{ package: '@xterm/xterm', file: 'lib/xterm.mjs', type: 'text/javascript; charset=utf-8' },
  },
  '/assets/xterm.css': {
    ...{ package: '@xterm/xterm', file: 'css/xterm.css', type: 'text/css; charset=utf-8' },
  },
  '/assets/addon-fit.mjs': {
    package: '@xterm/addon-fit',
    ...{ file: 'lib/addon-fit.mjs', type: 'text/javascript; charset=utf-8' },
  },
};

/** `/terminal/<id>` is a terminal of a workload. */
const terminal_page = { file: 'terminal.html', type: 'text/html; charset=utf-8' };

/** `/open/<id>` opens the web page of a workload. */
const open_page = { file: 'open.html', type: 'text/html; charset=utf-8' };

function fileOf(path: string): { package?: string; file: string; type: string } | null {
  if (Object.hasOwn(files, path)) return files[path] ?? null;
  if (Object.hasOwn(packaged, path)) return packaged[path] ?? null;
  const [, first, id = '', ...more] = path.split('/');
  if (more.length > 0 || !isId(id)) return null;
  if (first === 'terminal') return terminal_page;
  return first === 'open' ? open_page : null;
}

function placeOf(found: { package?: string; file: string }): string | URL {
  if (found.package === undefined) return new URL(`../../web/${found.file}`, import.meta.url);
  const manifest = createRequire(import.meta.url).resolve(`${found.package}/package.json`);
  return join(dirname(manifest), found.file);
}

/**
 * Did somebody come by an address of their own, or from a page of ours? Whoever was sent by another
 * site opens nothing without a click (ADR-0044).
 */
function isOurVisitor({ headers }: IncomingMessage): boolean {
  const site = headers['sec-fetch-site'];
  return site === 'same-origin' || site === 'none';
}

function openByItself(file: Buffer): Buffer {
  return Buffer.from(file.toString().replace('data-auto="no"', 'data-auto="yes"'));
}

/** Answers when the path is one of a page; false leaves the request to the API. */
export function servePage(
  request: IncomingMessage,
  response: ServerResponse,
  path: string,
): boolean {
  if (request.method !== 'GET' && request.method !== 'HEAD') return false;
  const found = fileOf(path);
  if (found === null) return false;
  const file = readFileSync(placeOf(found));
  const acts = found === open_page || found === terminal_page;
  const content = acts && isOurVisitor(request) ? openByItself(file) : file;
  response.writeHead(200, {
    'content-type': found.type,
    'content-length': content.length,
    'content-security-policy': policy,
    'cross-origin-opener-policy': 'same-origin',
  });
  response.end(request.method === 'HEAD' ? undefined : content);
  return true;
}
