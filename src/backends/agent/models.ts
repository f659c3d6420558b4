/**
 * Models in the sync: what machines say that they keep goes to the store, and what they are to do
 * about models, and for whom their runs fetch, goes back to them.
 *
 * Invariants: a report that says nothing new writes nothing; how far a fetch has come, and what a
 * disk has left, live in memory; a hub's token is looked up when it is sent, goes only to the
 * machine that has something of its tenant to fetch, and is kept nowhere on the way.
 */
import type { DesiredModels, ModelAsker, ObservedModels } from '../../contract/model-files.ts';
import type { DesiredRun } from '../../contract/sync.ts';
import { runName } from '../../core/run.ts';
import type { Clock } from '../../lib/clock.ts';
import { describeError, type Log } from '../../lib/log.ts';
import type { Secret } from '../../lib/secret.ts';
import { wishesOfMachine } from '../../store/model-files.ts';
import type { EinsoraStore } from '../../store/transactions.ts';

export type ModelSync = {
  /** Resolves with whether the store changed. */
  apply(machine_id: string, observed: ObservedModels): Promise<boolean>;
  desired(machine_id: string, runs: readonly OwnedRun[]): Promise<DesiredModels>;
  /** How far a fetch has come; null where none is heard of. */
  progressOf(machine_id: string, id: string): { done_bytes: number; total_bytes: number } | null;
  freeBytes(machine_id: string): number | null;
};

/** A desired run, and whose it is. */
export type OwnedRun = { run: DesiredRun; tenant_id: string };

export type ModelSyncDeps = {
  store: EinsoraStore;
  clock: Clock;
  log: Log;
  /** What opens hubs to a tenant. */
  hubToken(tenant_id: string): Promise<Secret | null>;
};

export function createModelSync(deps: ModelSyncDeps): ModelSync {
  const { store, clock } = deps;
  const heard = new Map<string, ObservedModels>();
  const applied = new Map<string, string>();
  return {
    async apply(machine_id, observed) {
      heard.set(machine_id, observed);
      const files = observed.files.map((file) => ({
        ...file,
        done_bytes: null,
        total_bytes: null,
      }));
      const text = JSON.stringify(files);
      if (applied.get(machine_id) === text) return false;
      const args = { machine_id, files, now: clock.now() };
      const { changed } = await store.transact('applyModelFiles', args);
      applied.set(machine_id, text);
      return changed > 0;
    },
    desired: (machine_id, runs) => desired(deps, machine_id, runs),
    progressOf(machine_id, id) {
      const file = heard.get(machine_id)?.files.find((one) => one.id === id);
      const { done_bytes = null, total_bytes = null } = file ?? {};
      return done_bytes === null || total_bytes === null ? null : { done_bytes, total_bytes };
    },
    freeBytes: (machine_id) => heard.get(machine_id)?.free_bytes ?? null,
  };
}

async function desired(
  deps: ModelSyncDeps,
  machine_id: string,
  runs: readonly OwnedRun[],
): Promise<DesiredModels> {
  const tokens = new Map<string, Promise<string | null>>();
  const tokenOf = (tenant_id: string, source: string): Promise<string | null> => {
    if (!source.startsWith('hf:')) return Promise.resolve(null);
    const known = tokens.get(tenant_id) ?? reveal(deps, tenant_id);
    tokens.set(tenant_id, known);
    return known;
  };
  const rows = await deps.store.read(wishesOfMachine, { machine_id });
  const files = rows.map(async ({ id, tenant_id, source, wish, wish_number: number }) => {
    if (wish === 'none') return null;
    const hub_token = wish === 'fetch' ? await tokenOf(tenant_id, source) : null;
    return { id, tenant_id, source, wish, number, hub_token };
  });
  const askers = runs.flatMap(({ run, tenant_id }) => {
    const { action, spec } = run;
    const model = action === 'run' && spec?.kind === 'endpoint' ? spec.model : '';
    if (!/^(?:hf|https):/.test(model)) return [];
    return [askerOf(runName(run), tenant_id, tokenOf(tenant_id, model))];
  });
  return {
    files: (await Promise.all(files)).filter((file) => file !== null),
    askers: await Promise.all(askers),
  };
}

async function askerOf(
  run: string,
  tenant_id: string,
  token: Promise<string | null>,
): Promise<ModelAsker> {
  return { run, tenant_id, hub_token: await token };
}

/** A secret that cannot be opened is none: the hub will then say what is missing. */
async function reveal(deps: ModelSyncDeps, tenant_id: string): Promise<string | null> {
  try {
    return (await deps.hubToken(tenant_id))?.reveal() ?? null;
  } catch (error) {
    deps.log.warn({ error: describeError(error) }, "a hub's token could not be opened");
    return null;
  }
}
