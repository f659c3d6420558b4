/**
 * The pages of Solo: this machine, what can run here and why not the rest; signing in, following an
 * invitation or a reset link. The files are in web/; they ask the API like any other client.
 *
 * Invariants: no inline script or style, so the policy forbids all of it; nothing of a page is
 * secret, what it shows comes from the API by the session.
 */
import { readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isId } from '../core/ids.ts';

const files: Record<string, { file: string; type: string }> = {
  '/': { file: 'index.html', type: 'text/html; charset=utf-8' },
  '/sign-in': { file: 'sign-in.html', type: 'text/html; charset=utf-8' },
  '/join': { file: 'join.html', type: 'text/html; charset=utf-8' },
  '/reset': { file: 'join.html', type: 'text/html; charset=utf-8' },
  '/assets/forms.js': { file: 'forms.js', type: 'text/javascript; charset=utf-8' },
  '/assets/join.js': { file: 'join.js', type: 'text/javascript; charset=utf-8' },
  '/assets/machine.js': { file: 'machine.js', type: 'text/javascript; charset=utf-8' },
  '/assets/open.js': { file: 'open.js', type: 'text/javascript; charset=utf-8' },
  '/assets/sign-in.js': { file: 'sign-in.js', type: 'text/javascript; charset=utf-8' },
  '/assets/style.css': { file: 'style.css', type: 'text/css; charset=utf-8' },
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

/** `/open/<id>` opens the web page of a workload. */
const open_page = { file: 'open.html', type: 'text/html; charset=utf-8' };

function fileOf(path: string): { file: string; type: string } | null {
  if (Object.hasOwn(files, path)) return files[path] ?? null;
  return path.startsWith('/open/') && isId(path.slice('/open/'.length)) ? open_page : null;
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
  const found = fileOf(path);
  if (found === null || (request.method !== 'GET' && request.method !== 'HEAD')) return false;
  const file = readFileSync(new URL(`../../web/${found.file}`, import.meta.url));
  const content = found === open_page && isOurVisitor(request) ? openByItself(file) : file;
  response.writeHead(200, {
    'content-type': found.type,
    'content-length': content.length,
    'content-security-policy': policy,
    'cross-origin-opener-policy': 'same-origin',
  });
  response.end(request.method === 'HEAD' ? undefined : content);
  return true;
}
