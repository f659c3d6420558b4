/**
 * Machines and the catalog.
 */
import { EinsoraError } from '../../contract/errors.ts';
import { limits } from '../../contract/limits.ts';
import type { Machine } from '../../contract/machines.ts';
import { routes } from '../../contract/routes.ts';
import { modelMemoryBytes, models, smallestClass } from '../../core/catalog.ts';
import { type ImageRuntime, runsForm } from '../../core/images.ts';
import { type DriverName, driverIsolation } from '../../core/trust.ts';
import type { Kind } from '../../core/workload.ts';
import type { Api } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import { offersClass } from '../device-views.ts';

export function machineRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.listMachines, async (c) => {
    const { tenant_id } = c.get('principal');
    return c.json({ items: await deps.machines.list(tenant_id) }, 200);
  });

  app.openapi(routes.refreshMachine, async (c) => {
    const { tenant_id } = c.get('principal');
    const asked = c.req.valid('param').machine;
    const id = await ownMachine(deps, tenant_id, asked);
    if (id === null) {
      throw new EinsoraError('not_found', { what: `machine ${asked}`, list: 'machines' });
    }
    const has_looked = await deps.lookAnew(id);
    const machine = (await deps.machines.list(tenant_id)).find((one) => one.id === id);
    if (machine === undefined) {
      throw new EinsoraError('not_found', { what: `machine ${asked}`, list: 'machines' });
    }
    if (has_looked) return c.json(machine, 200);
    const { name, online, last_seen_at } = machine;
    if (online) {
      const seconds = limits.machine_look_ms / 1000;
      throw new EinsoraError('machine_silent', { machine: name, seconds });
    }
    const since = last_seen_at === null ? 'it was added' : new Date(last_seen_at).toISOString();
    throw new EinsoraError('machine_offline', { machine: name, since });
  });

  app.openapi(routes.showCatalog, async (c) => {
    const machines = await deps.machines.list(c.get('principal').tenant_id);
    const catalog = await deps.catalogs.read();
    return c.json(
      {
        classes: catalog.classes.map((entry) => ({
          ...{ name: entry.name, accelerator: entry.accelerator, delivery: entry.delivery },
          ...{ cpu_millis: entry.cpu_millis, memory_bytes: entry.memory_bytes },
          ...{ gpu_memory_bytes: entry.gpu_memory_bytes, gpu_model: entry.gpu_model },
          machines: machines.filter((one) => offersClass(one, entry)).map(({ name }) => name),
        })),
        images: catalog.images.entries.map(({ name, title, kinds, runtimes }) => ({
          ...{ name, title, kinds: [...kinds] },
          runtimes: runtimes.map(({ accelerator, form, reference }) => ({
            ...{ accelerator, form, reference },
          })),
          machines: machines.filter((one) => canRun(one, kinds, runtimes)).map((one) => one.name),
        })),
        models: models.map((model) => ({
          ...model,
          smallest_class: smallestClass(modelMemoryBytes(model.file_bytes), catalog)?.name ?? null,
        })),
      },
      200,
    );
  });
}

/** The id of a machine of this tenant, by id or name; null where there is none. */
export async function ownMachine(
  { machines }: Pick<ApiDeps, 'machines'>,
  tenant_id: string,
  asked: string,
): Promise<string | null> {
  const own = (await machines.list(tenant_id)).filter(({ is_yours }) => is_yours);
  const found = own.find(({ id }) => id === asked) ?? own.find(({ name }) => name === asked);
  return found?.id ?? null;
}

/** Whether a driver of the machine is ready for one of the runtimes. Of others' nothing is known. */
function canRun(
  { inventory }: Machine,
  kinds: readonly Kind[],
  runtimes: readonly ImageRuntime[],
): boolean {
  if (inventory === null) return false;
  const { accelerators, drivers } = inventory;
  return drivers.some(
    ({ driver, ready, kinds: able }) =>
      ready &&
      isDriver(driver) &&
      kinds.some((kind) => able.includes(kind)) &&
      runtimes.some(
        ({ form, accelerator }) =>
          runsForm(driver, form) && accelerators.some((one) => one === accelerator),
      ),
  );
}

function isDriver(name: string): name is DriverName {
  return Object.hasOwn(driverIsolation, name);
}
