/**
 * Where a key leads: to its own endpoint's run, and by name only to its own tenant's machine.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { beginTale } from '../../test/lib/ledger-tale.ts';
import { addTenant, openTestStore } from '../../test/lib/rig.ts';
import { no_request_limits } from '../core/request-limits.ts';
import { createStop } from '../gateway/stop.ts';
import { systemClock } from '../lib/clock.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import { createTargets } from './targets.ts';

const never = createStop();

test("a key is told the name of its own tenant's machine, of another's the class", async () => {
  const { store, close } = await openTestStore('memory');
  try {
    const tale = await beginTale(store);
    await tale.launch();
    await tale.place();
    await tale.report('ready');
    const { id, tenant_id, name } = await tale.workload();
    const key = {
      id: 'k',
      tenant_id,
      workload_ids: [id],
      expires_at: null,
      revoked_at: null,
      user_id: 'u',
      limits: no_request_limits,
      user_limits: no_request_limits,
    };
    const targets = createTargets({
      ...{ store: store as unknown as EinsoraStore, asOf: () => null, waker: null },
      ...{ presence: { isOnline: () => true }, clock: systemClock },
    });
    const told = async () => {
      const found = await targets.findEndpoint(key, name, never);
      const [one] = found.ok ? found.endpoint.replicas : [];
      return [one?.machine_name, one?.placed_class, one?.slots];
    };
    assert.deepEqual(await told(), ['desk', 'cpu-1c-2g', 2]);
    await addTenant(store, 'other', 'other');
    const text = "update machines set tenant_id = 'other'";
    await store.transact('write', { text, params: [] });
    assert.deepEqual(await told(), [null, 'cpu-1c-2g', 2]);
    assert.equal((await targets.findEndpoint(key, 'another', never)).ok, false);
  } finally {
    await close();
  }
});
