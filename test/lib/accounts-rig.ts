/**
 * People in a deployment, made the way that real ones are: invited, joined, signed in.
 */
import type { Role } from '../../src/core/roles.ts';
import { type Answer, ask, createRig, type Rig } from './rig.ts';

export const password = 'a long enough word';

/** Runs a test on a deployment of its own, which is taken apart after it. */
export async function onRig(body: (rig: Rig) => Promise<void>): Promise<void> {
  const rig = await createRig();
  try {
    await body(rig);
  } finally {
    await rig.close();
  }
}

/** The secret of a link, which stands in its fragment. */
export function secretOf(answer: Answer): string {
  const url = new URL(String(answer.body.url));
  if (url.search !== '') throw new Error('a secret stands where servers log it');
  return url.hash.replace('#t=', '');
}

export async function invite(
  rig: Rig,
  body: { role?: Role; tenant?: string; expires_in_ms?: number } = {},
  token?: string,
): Promise<string> {
  const how = token === undefined ? { body } : { body, token };
  const answer = await ask(rig, 'POST', '/v1/invitations', how);
  if (answer.status !== 201) throw new Error(answer.text);
  return secretOf(answer);
}

export function join(rig: Rig, token: string, name: string, word = password): Promise<Answer> {
  return ask(rig, 'POST', '/v1/join', { token: null, body: { token, name, password: word } });
}

export function signIn(
  rig: Rig,
  name: string,
  word = password,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const body = { name, password: word };
  return ask(rig, 'POST', '/v1/session', { token: null, body, headers });
}

export function logIn(rig: Rig, name: string, word = password): Promise<Answer> {
  return ask(rig, 'POST', '/v1/login', { token: null, body: { name, password: word } });
}

export type PersonOfRig = { name: string; id: string; token: string };

/** Somebody who was invited, has joined, and signed a command line in. */
export async function addPerson(
  rig: Rig,
  name: string,
  how: { role?: Role; tenant?: string } = {},
): Promise<PersonOfRig> {
  const joined = await join(rig, await invite(rig, how), name);
  if (joined.status !== 201) throw new Error(joined.text);
  const logged_in = await logIn(rig, name);
  return { name, id: String(joined.body.id), token: String(logged_in.body.token) };
}

export async function addTenantOf(rig: Rig, slug: string): Promise<string> {
  const { body } = await ask(rig, 'POST', '/v1/tenants', { body: { slug } });
  return String(body.id);
}

/** The cookies that an answer sets, as a browser would send them back. */
export function cookiesOf(answer: Answer): string {
  return answer.headers
    .getSetCookie()
    .map((cookie) => cookie.split(';')[0])
    .join('; ');
}

/** A request of a page of ours, by its cookies. */
export function browse(
  rig: Rig,
  method: string,
  path: string,
  cookie: string,
  body?: unknown,
): Promise<Answer> {
  const headers = { cookie, 'sec-fetch-site': 'same-origin' };
  return ask(rig, method, path, {
    token: null,
    headers,
    ...(body === undefined ? {} : { body }),
  });
}

/** What an answer comes down to: its status, and the code where it is a refusal. */
export function said(answer: Answer): string {
  const code = answer.body.error?.code;
  return code === undefined ? String(answer.status) : `${answer.status} ${code}`;
}
