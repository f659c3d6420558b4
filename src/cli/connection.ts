/**
 * Which control plane a command talks to, and as whom: the one of a named data folder, a context,
 * or the one of this machine.
 *
 * Invariants: a data folder that was named wins and signs in by its owner's token; a password or
 * token never leaves this machine unencrypted.
 */
import type { Secret } from '../lib/secret.ts';
import { CliError, shellWord, unreachable, usageError } from './cli-error.ts';
import type { Config } from './config.ts';
import { currentContext, tokenOf } from './contexts.ts';
import { findControlPlane, readOwnerToken } from './control-plane.ts';

export type Place = {
  url: string;
  /** Its name where it is a context. */
  context: string | null;
  /** It is the control plane of the data folder. */
  is_local: boolean;
};
export type Connection = Place & { token: Secret };

/** Throws CliError where none is to be had. */
export function findConnection(config: Config): Connection {
  const chosen = currentContext(config);
  if (chosen !== null) {
    const { name, stored } = chosen;
    return { url: checkUrl(stored.url), token: tokenOf(stored), context: name, is_local: false };
  }
  const found = findControlPlane(config);
  if (found === null) throw unreachable(config);
  return { url: found.url, token: readOwnerToken(config), context: null, is_local: true };
}

/** An address that secrets may be sent to: https, or this machine itself. */
export function checkUrl(text: string): string {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) {
    throw usageError(`${text} is no address: give one such as http://localhost:4600`);
  }
  const { protocol, hostname, port, origin, username, password } = new URL(text);
  if (username !== '' || password !== '') throw usageError('an address must hold no password');
  if (protocol === 'https:') return origin;
  const is_here = /^(?:localhost|127\.0\.0\.1|\[::1\])$/.test(hostname);
  if (is_here) return origin;
  // The same port on both sides: under another one the control plane does not answer.
  const at = port || '4600';
  const tunnel = `ssh -L ${at}:localhost:${at} ${shellWord(hostname)}`;
  throw usageError(
    `${origin} would be spoken to in the clear`,
    `${tunnel}, then: bin/einsora login --url http://localhost:${at}`,
  );
}

/** Nobody answers there. */
export function unreachablePlace(config: Config, place: Place): CliError {
  if (place.is_local) return unreachable(config);
  const of = place.context === null ? '' : ` (context ${place.context})`;
  return new CliError({
    code: 'control_plane_unreachable',
    message: `No control plane answers at ${place.url}${of}.`,
    fix: 'bin/einsora context ls',
    exit: 'unreachable',
  });
}

/** A refused token of a context: says how to sign in there again. */
export function withWayBack(place: Place, error: CliError): CliError {
  if (error.code !== 'sign_in_required' || place.context === null) return error;
  const name = shellWord(place.context);
  error.fix = `bin/einsora login --url ${shellWord(place.url)} --context ${name}`;
  return error;
}
