/**
 * The pages of Solo: this machine, what can run here and why not the rest; signing in, following an
 * invitation or a reset link. The files are in web/; they ask the API like any other client.
 *
 * Invariants: no inline script or style, so the policy forbids all of it; nothing of a page is
 * secret, what it shows comes from the API by the session.
 */
import { readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';

const files: Record<string, { file: string; type: string }> = {
  '/': { file: 'index.html', type: 'text/html; charset=utf-8' },
  '/sign-in': { file: 'sign-in.html', type: 'text/html; charset=utf-8' },
  '/join': { file: 'join.html', type: 'text/html; charset=utf-8' },
  '/reset': { file: 'join.html', type: 'text/html; charset=utf-8' },
  '/assets/forms.js': { file: 'forms.js', type: 'text/javascript; charset=utf-8' },
  '/assets/join.js': { file: 'join.js', type: 'text/javascript; charset=utf-8' },
  '/assets/machine.js': { file: 'machine.js', type: 'text/javascript; charset=utf-8' },
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

/** Answers when the path is one of a page; false leaves the request to the API. */
export function servePage(
  request: IncomingMessage,
  response: ServerResponse,
  path: string,
): boolean {
  const found = Object.hasOwn(files, path) ? files[path] : undefined;
  if (found === undefined || (request.method !== 'GET' && request.method !== 'HEAD')) return false;
  const content = readFileSync(new URL(`../../web/${found.file}`, import.meta.url));
  response.writeHead(200, {
    'content-type': found.type,
    'content-length': content.length,
    'content-security-policy': policy,
    'cross-origin-opener-policy': 'same-origin',
  });
  response.end(request.method === 'HEAD' ? undefined : content);
  return true;
}
