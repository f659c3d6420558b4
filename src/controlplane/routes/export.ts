/**
 * The export of a workload, as a file to keep.
 */
import { EinsoraError } from '../../contract/errors.ts';
import type { WorkloadExport } from '../../contract/export.ts';
import { routes } from '../../contract/routes.ts';
import type { Api } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import { exportWorkload } from '../workload-export.ts';
import { found } from './workloads.ts';

export function exportRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.exportWorkload, async (c) => {
    const { id, name } = await found(deps, c);
    const text = await exportWorkload(deps, id);
    if (text === null) throw new EinsoraError('not_found', { what: `workload ${name}` });
    c.header('content-type', 'application/json');
    c.header('content-disposition', `attachment; filename="${name}.workload-export.json"`);
    // The text as it was made: whoever checks it wants these bytes.
    return c.body(text, 200) as unknown as ReturnType<typeof c.json<WorkloadExport, 200>>;
  });
}
