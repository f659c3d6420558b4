/**
 * Where a gateway request leads: keys and endpoints, read from the store for the gateway.
 */
import type { GatewayKey } from '../gateway/key.ts';
import type { GatewayTarget } from '../gateway/target.ts';
import { findKey, findTarget, type TargetRow } from '../store/keys.ts';
import type { EinsoraStore } from '../store/transactions.ts';

export function createTargets(store: EinsoraStore) {
  return {
    async findKey(hash: string): Promise<GatewayKey | null> {
      return (await store.read(findKey, { hash })) ?? null;
    },

    async findTarget(key: GatewayKey, model: string): Promise<GatewayTarget> {
      const row = await rowOf(store, key);
      if (row === undefined || row.name !== model)
        return { ok: false, code: 'not_found', details: { name: model } };
      const details = { name: row.name, state: row.state };
      if (row.state === 'stopped' || row.state === 'stopping') {
        return { ok: false, code: 'endpoint_stopped', details };
      }
      if (row.state === 'failed') return { ok: false, code: 'endpoint_failed', details };
      const { replica, run_epoch, machine_id } = row;
      if (
        row.state !== 'running' ||
        replica === null ||
        run_epoch === null ||
        machine_id === null
      ) {
        return { ok: false, code: 'not_ready', details };
      }
      return {
        ok: true,
        run: { workload_id: row.workload_id, replica, run_epoch },
        machine_id,
        // Of another tenant's machine a key is told the class, not the name.
        machine_name: row.machine_tenant_id === key.tenant_id ? row.machine_name : null,
        placed_class: row.placed_class ?? '',
        name: row.name,
      };
    },

    async listModels(key: GatewayKey): Promise<{ id: string; created_at: number }[]> {
      const row = await rowOf(store, key);
      return row === undefined ? [] : [{ id: row.name, created_at: row.created_at }];
    },
  };
}

async function rowOf(store: EinsoraStore, key: GatewayKey): Promise<TargetRow | undefined> {
  return key.workload_id === null
    ? undefined
    : store.read(findTarget, { workload_id: key.workload_id });
}
