/**
 * Machines and the catalog.
 */
import { routes } from '../../contract/routes.ts';
import { classes, modelMemoryBytes, models, smallestClass } from '../../core/catalog.ts';
import type { Api } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';

export function machineRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.listMachines, async (c) => {
    const { tenant_id } = c.get('principal');
    return c.json({ items: await deps.machines.list(tenant_id) }, 200);
  });

  app.openapi(routes.showCatalog, async (c) => {
    const machines = await deps.machines.list(c.get('principal').tenant_id);
    return c.json(
      {
        classes: classes.map(({ name, accelerator, delivery, cpu_millis, memory_bytes }) => ({
          name,
          accelerator,
          delivery,
          cpu_millis,
          memory_bytes,
          machines: machines
            .filter(
              (machine) =>
                machine.offered.cpu_millis >= cpu_millis &&
                machine.offered.memory_bytes >= memory_bytes,
            )
            .map((machine) => machine.name),
        })),
        models: models.map((model) => ({
          ...model,
          smallest_class: smallestClass(modelMemoryBytes(model.file_bytes))?.name ?? null,
        })),
      },
      200,
    );
  });
}
