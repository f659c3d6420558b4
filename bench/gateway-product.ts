/**
 * The product's side of the gateway bench: the control plane's listeners and gateway as the program
 * puts them together, on a store in a file, with a log, a stored key, and an endpoint that runs.
 *
 * Invariants: all that a request meets in the program it meets here; only what opens a connection
 * to the run is given.
 */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { numberChanges } from '../src/controlplane/changes.ts';
import { openFaces } from '../src/controlplane/faces.ts';
import { openHostKey } from '../src/controlplane/host-key.ts';
import { openRequestRecords } from '../src/controlplane/request-records.ts';
import { listen } from '../src/controlplane/server.ts';
import { openUse } from '../src/controlplane/use.ts';
import { countWrites } from '../src/controlplane/written.ts';
import { makeId } from '../src/core/ids.ts';
import { makeToken } from '../src/core/token.ts';
import { createBalancer } from '../src/gateway/balance/balancer.ts';
import { systemClock as clock } from '../src/lib/clock.ts';
import { openLog } from '../src/lib/log.ts';
import { systemRandom as random } from '../src/lib/random.ts';
import { digest, Secret } from '../src/lib/secret.ts';
import { createRig, type Rig } from '../test/lib/rig.ts';
import type { Asked } from './gateway-load.ts';

export async function startProduct(dial: () => Promise<Duplex>): Promise<Asked> {
  const rig = await createRig({ kind: 'file' });
  const key = await addEndpoint(rig);
  const folder = mkdtempSync(join(tmpdir(), 'einsora-bench-'));
  const log = openLog({ level: 'info', destination: join(folder, 'log'), clock });
  const changes = countWrites(await numberChanges(rig.apiDeps.store));
  const { store } = changes;
  let port = 0;
  const { gateway, api, access } = openFaces({
    ...{ ...rig.apiDeps, asOf: rig.asOf, store, changes, clock, random, log },
    balancer: createBalancer(random, clock),
    requests: await openRequestRecords({ store, clock, log }),
    use: await openUse({ store, clock, log, changed: () => {} }),
    backend: { ...rig.apiDeps.backend, dial },
    host_key: openHostKey(folder),
    siteToken: () => new Secret(''),
    port: () => port,
  });
  ({ port } = await listen(0, { ...{ api, gateway, clock, random, log }, ...access }));
  return { port, headers: [`Authorization: Bearer ${key}`] };
}

/** More than ever ask at once: what is measured is no queue. */
const slots = 8192;

/** An endpoint that runs and has a slot for everybody, named as the questions ask, and its key. */
async function addEndpoint({ store, ids }: Rig): Promise<string> {
  const now = clock.now();
  const spec = { kind: 'endpoint', name: 'smol', model_params: { parallel: slots } };
  const [id, key_id] = [makeId(now, random.bytes(10)), makeId(now, random.bytes(10))];
  const write = (text: string, params: (string | number)[]) =>
    store.transact('write', { text, params });
  await write(
    `insert into workloads (id, tenant_id, creator_id, name, kind, spec, state, intent,
        park_cause, code, details, revision, run_epoch, event_number, event_at, attempts,
        not_before, created_at, state_since)
      values ($1, $2, $3, 'smol', 'endpoint',
        $5, 'running', 'running', 'none', 'waiting_for_placement', '{}', 1, 1, 0, 0, 0, 0, $4, $4)`,
    [id, ids.tenant_id, ids.user_id, now, JSON.stringify(spec)],
  );
  await write(
    `insert into runs (workload_id, replica, run_epoch, machine_id, driver, isolation,
        placed_class, wanted, observed, ready_at, created_at)
      values ($1, 0, 1, $2, 'sim', 'weak', 'cpu-1c-2g', 'run', 'present', 1, 1)`,
    [id, ids.machine_id],
  );
  const key = makeToken('ept_', random.bytes(32));
  await write(
    `insert into endpoint_keys (id, tenant_id, workload_id, user_id, hash, last_four, created_at)
      values ($1, $2, $3, $4, $5, $6, $7)`,
    [key_id, ids.tenant_id, id, ids.user_id, digest(key), key.slice(-4), now],
  );
  return key;
}
