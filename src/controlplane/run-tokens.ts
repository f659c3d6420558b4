/**
 * The tokens of runs: by which the access proxy speaks to a run's own web page (Jupyter's), and by
 * which a run calls the gateway.
 *
 * Invariants: derived from the deployment's key and the run's name, never stored: what knows one
 * run's token knows no other's, and a new run has a new one. A deployment whose key was changed
 * has other tokens: runs that were begun before have to be started anew to be opened (ADR-0041).
 */
import { createHmac } from 'node:crypto';
import { type RunKey, runName } from '../core/run.ts';
import { makeToken } from '../core/token.ts';
import { Secret } from '../lib/secret.ts';
import type { DeploymentKey } from './deployment-key.ts';

export type RunTokens = {
  /** The token that the run's web page asks for. */
  siteToken(run: RunKey): Secret;
  /** The endpoint key of the run; the store knows its hash (`run-keys.ts`). */
  gatewayKey(run: RunKey): Secret;
};

export function createRunTokens({ key }: DeploymentKey): RunTokens {
  const own = mac(Buffer.from(key.reveal(), 'hex'), 'einsora run tokens');
  return {
    siteToken: (run) => new Secret(mac(own, `site:${runName(run)}`).toString('hex')),
    gatewayKey: (run) => new Secret(makeToken('ept_', mac(own, `gateway:${runName(run)}`))),
  };
}

function mac(key: Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}
