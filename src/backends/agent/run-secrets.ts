/**
 * What only the placed machine is told of a run: the token of its web page, its key for the
 * gateway, the values of the stored secrets that its variables take, and the sign-ins at the
 * registries of its image.
 *
 * Invariants: looked up each time it is sent, and kept nowhere on the way; a run that is not to run
 * there gets none; a secret that is gone or cannot be opened is left out, and the agent says which.
 */
import type { DesiredRun, InstanceSpec, NotebookSpec, RunSecrets } from '../../contract/sync.ts';
import { callsGateway, runtimesOf, siteOf } from '../../core/images.ts';
import { registryOf, registrySecret } from '../../core/registries.ts';
import type { RunKey } from '../../core/run.ts';
import { describeError, type Log } from '../../lib/log.ts';
import type { Secret } from '../../lib/secret.ts';
import type { OwnedRun } from './models.ts';

export type RunSecretsDeps = {
  siteToken(run: RunKey): Secret;
  /** Its key for the gateway; null where the run has ended. */
  gatewayKey(run: RunKey): Promise<Secret | null>;
  /** The value of a tenant's stored secret; null where there is none. */
  reveal(tenant_id: string, name: string): Promise<Secret | null>;
  log: Log;
};

export type WithSecrets = (owned: OwnedRun) => Promise<DesiredRun>;

export function createRunSecrets(deps: RunSecretsDeps): WithSecrets {
  return async ({ run, tenant_id }) => {
    const { spec } = run;
    if (spec === null || spec.kind === 'endpoint') return run;
    const site_token = siteOf(spec.kind) === null ? null : deps.siteToken(run).reveal();
    const key = callsGateway(spec.kind) ? await deps.gatewayKey(run) : null;
    const values: RunSecrets['values'] = {};
    for (const value of Object.values(spec.env)) {
      if (typeof value === 'string') continue;
      const found = await revealed(deps, tenant_id, value.secret);
      if (found !== null) values[value.secret] = found.reveal();
    }
    const registries = await signInsOf(deps, tenant_id, spec);
    const known = Object.keys(registries).length === 0 ? {} : { registries };
    const gateway_key = key?.reveal() ?? null;
    return { ...run, secrets: { site_token, gateway_key, values, ...known } };
  };
}

/** For each registry that the image may be pulled from: the tenant's sign-in, where it has one. */
async function signInsOf(
  deps: RunSecretsDeps,
  tenant_id: string,
  { kind, image_id }: NotebookSpec | InstanceSpec,
): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  const references = runtimesOf(kind, image_id).flatMap(({ reference }) => reference ?? []);
  for (const registry of new Set(references.map(registryOf))) {
    if (registry === 'localhost') continue; // built on the machine
    const secret = await revealed(deps, tenant_id, registrySecret(registry));
    if (secret !== null) found[registry] = secret.reveal();
  }
  return found;
}

async function revealed(
  { reveal, log }: RunSecretsDeps,
  tenant_id: string,
  name: string,
): Promise<Secret | null> {
  try {
    return await reveal(tenant_id, name);
  } catch (error) {
    log.warn({ secret: name, error: describeError(error) }, 'a secret could not be opened');
    return null;
  }
}
