/**
 * Regions: listing them, and saying where a machine is.
 */
import { EinsoraError } from '../../contract/errors.ts';
import { routes } from '../../contract/routes.ts';
import { findAnyMachine } from '../../store/regions.ts';
import { actionOf } from '../action.ts';
import type { Api } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';

export function regionRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.listRegions, async (c) => {
    const machines = await deps.machines.list(c.get('principal').tenant_id);
    const groups = Map.groupBy(machines, ({ region }) => region);
    const items = [...groups].map(([region, all]) => ({ region, machines: all.length }));
    return c.json({ items: items.sort((a, b) => (a.region < b.region ? -1 : 1)) }, 200);
  });

  app.openapi(routes.setMachineRegion, async (c) => {
    const { machine: asked } = c.req.valid('param');
    const { region } = c.req.valid('json');
    const { tenant_id } = c.get('principal');
    const row = await deps.store.read(findAnyMachine, { tenant_id, machine: asked });
    const gone = new EinsoraError('not_found', { what: `machine ${asked}`, list: 'machines' });
    if (row === undefined) throw gone;
    const action = actionOf(deps, c);
    const args = { machine_id: row.id, region, now: action.now, action };
    const done = await deps.store.transact('setMachineRegion', args);
    if (done.outcome === 'not_found') throw gone;
    if (done.outcome === 'in_use') {
      const { runs, homes } = done;
      const what = [
        ...(runs > 0 ? [`${runs} that run`] : []),
        ...(homes > 0 ? [`the disks of ${homes} workloads`] : []),
      ].join(' and ');
      throw new EinsoraError('region_in_use', { machine: row.name, what });
    }
    deps.catalogs.changed();
    deps.wakeController();
    return c.json({ machine: row.name, region }, 200);
  });
}
