/**
 * What an SSH client must know of this deployment.
 */
import { routes } from '../../contract/routes.ts';
import type { Api } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';

export function sshRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.showSsh, (c) => c.json({ host_key: deps.ssh_host_key }, 200));
}
