/**
 * Secrets and models of a rig: a hub that is not there, unless the test serves one.
 */
import { openModels } from '../../src/controlplane/models.ts';
import { openSecrets } from '../../src/controlplane/secrets.ts';
import type { Log } from '../../src/lib/log.ts';

export type Places = Parameters<typeof openModels>[0]['places'];

const nowhere: Places = { hub_url: 'https://hub.invalid', trusted_origins: [] };

export async function rigModels(
  shared: Parameters<typeof openSecrets>[0] & { log: Log },
  places: Places = nowhere,
) {
  const secrets = await openSecrets(shared);
  return { secrets, models: openModels({ ...shared, secrets, places }) };
}
