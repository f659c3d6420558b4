/**
 * Models as a control plane has to do with them, put together: what hubs say, and the sync's part.
 */
import { createModelSync } from '../backends/agent/models.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { Sources } from '../models/source-plan.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import { createModelSources } from './model-sources.ts';
import type { Secrets } from './secrets.ts';

/** The name of the secret that opens hubs. */
const hub_secret = 'hf-token';

export function openModels(deps: {
  store: EinsoraStore;
  clock: Clock;
  log: Log;
  secrets: Pick<Secrets, 'reveal'>;
  places: { hub_url: string; trusted_origins: readonly string[] };
}) {
  const { store, clock, log, secrets, places } = deps;
  const { hub_url, trusted_origins } = places;
  const sources: Sources = { net: { clock, trusted_origins }, hub_url };
  const hubToken = (tenant_id: string) => secrets.reveal(tenant_id, hub_secret);
  return {
    sources,
    hub_url,
    models: createModelSources({ sources, clock, hubToken }),
    modelSync: createModelSync({ store, clock, log, hubToken }),
  };
}
