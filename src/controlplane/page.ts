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
import { dirname, extname, join } from 'node:path';
import { isId } from '../core/ids.ts';

const files: Record<string, string> = {
  '/': 'index.html',
  '/sign-in': 'sign-in.html',
  '/join': 'join.html',
  '/reset': 'join.html',
  '/keys': 'keys.html',
  '/assets/ask.js': 'ask.js',
  '/assets/forms.js': 'forms.js',
  '/assets/join.js': 'join.js',
  '/assets/key-made.js': 'key-made.js',
  '/assets/key-row.js': 'key-row.js',
  '/assets/keys.css': 'keys.css',
  '/assets/keys.js': 'keys.js',
  '/assets/machine.js': 'machine.js',
  '/assets/open.js': 'open.js',
  '/assets/sign-in.js': 'sign-in.js',
  '/assets/style.css': 'style.css',
  '/assets/terminal.css': 'terminal.css',
  '/assets/terminal.js': 'terminal.js',
};

/** By the ends of files' names. */
const types: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
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
const packaged: Record<string, PageFile> = {
  '/assets/xterm.mjs': { package: '@xterm/xterm', file: 'lib/xterm.mjs' },
  '/assets/xterm.css': { package: '@xterm/xterm', file: 'css/xterm.css' },
  '/assets/addon-fit.mjs': { package: '@xterm/addon-fit', file: 'lib/addon-fit.mjs' },
};

/** Without a package it is one of ours. */
type PageFile = { package?: string; file: string };

/** `/terminal/<id>` is a terminal of a workload. */
const terminal_page: PageFile = { file: 'terminal.html' };

/** `/open/<id>` opens the web page of a workload. */
const open_page: PageFile = { file: 'open.html' };

function fileOf(path: string): PageFile | null {
  if (Object.hasOwn(files, path)) return { file: files[path] ?? '' };
  if (Object.hasOwn(packaged, path)) return packaged[path] ?? null;
  const [, first, id = '', ...more] = path.split('/');
  if (more.length > 0 || !isId(id)) return null;
  if (first === 'terminal') return terminal_page;
  return first === 'open' ? open_page : null;
}

function placeOf(found: PageFile): string | URL {
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
    'content-type': types[extname(found.file)],
    'content-length': content.length,
    'content-security-policy': policy,
    'cross-origin-opener-policy': 'same-origin',
  });
  response.end(request.method === 'HEAD' ? undefined : content);
  return true;
}
