/**
 * The cookies that a browser, or a command line that signs in, is given.
 *
 * Invariants: for this host only, never for scripts, and sent by pages of ours alone.
 */
import type { Context } from 'hono';
import { limits } from '../contract/limits.ts';
import type { ApiEnv } from './api.ts';
import type { ApiDeps } from './api-deps.ts';
import { cookieOf, headersOf } from './auth/principal.ts';

export function setCookie(c: Context<ApiEnv>, name: string, value: string, age_ms: number): void {
  const attributes = `Path=/; Max-Age=${Math.floor(age_ms / 1000)}; HttpOnly; SameSite=Strict`;
  c.header('set-cookie', `${name}=${value}; ${attributes}`, { append: true });
}

/** Marks who has proven themselves by this name, so that guessers cannot slow them (auth/tries.ts). */
export function giveMark(deps: ApiDeps, c: Context<ApiEnv>, name: string): void {
  setCookie(c, markName(deps), deps.signIns.markOf(name), limits.known_browser_ms);
}

/** The mark that this client was given, or null. */
export function markOf(deps: ApiDeps, c: Context<ApiEnv>): string | null {
  return cookieOf(headersOf(c), markName(deps));
}

function markName(deps: ApiDeps): string {
  return deps.cookieName().replace('session', 'known');
}
