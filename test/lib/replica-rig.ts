/**
 * A gateway in front of several scriptable engines, which are asked in their order.
 *
 * Invariants: as the one-engine rig's; what each request leaves as its record is kept.
 */

import assert from 'node:assert/strict';
import { runName } from '../../src/core/run.ts';
import type { Balancer } from '../../src/gateway/balance/balancer.ts';
import type { Replica } from '../../src/gateway/endpoint.ts';
import type { GatewayOptions } from '../../src/gateway/gateway.ts';
import type { RequestRecord } from '../../src/gateway/request-record.ts';
import { type Rig, replica, smol, startRig } from './gateway-rig.ts';
import { type Script, startUpstream, type Upstream } from './upstream.ts';

export type ReplicaRig = Rig & {
  engines: Upstream[];
  records: RequestRecord[];
  /** How each outing ended, as `replica how`. */
  ends: string[];
  /** How many questions each engine has seen. */
  asked(): number[];
};

export async function startReplicaRig(
  scripts: readonly Script[],
  changes: Partial<GatewayOptions> = {},
): Promise<ReplicaRig> {
  const engines = await Promise.all(scripts.map(() => startUpstream()));
  for (const [index, script] of scripts.entries()) engines[index]?.answer(script);
  const records: RequestRecord[] = [];
  const ends: string[] = [];
  const rig = await startRig({
    findEndpoint: async () => smol(...scripts.map((_, index) => replicaOf(index))),
    balancer: inOrder(ends),
    record: (record) => void records.push(record),
    dial: ({ replica: index }) =>
      engines[index]?.dialTcp() ?? Promise.reject(new Error('there is no such engine')),
    ...changes,
  });
  return {
    ...rig,
    ...{ engines, records, ends },
    asked: () => engines.map(({ seen }) => seen.length),
    async close() {
      await rig.close();
      await Promise.all(engines.map((engine) => engine.close()));
    },
  };
}

export function replicaOf(index: number): Replica {
  return { ...replica, run: { ...replica.run, replica: index }, machine_name: `m${index}` };
}

function inOrder(ends: string[]): Balancer {
  return {
    choose: (all, { not }) => all.find(({ run }) => !not.has(runName(run))) ?? null,
    begin: (run) => {
      let is_open = true;
      return {
        progress() {},
        ended(how) {
          if (is_open) ends.push(`${run.replica} ${how}`);
          is_open = false;
        },
      };
    },
    capacity: () => Number.POSITIVE_INFINITY,
    look: () => assert.fail('nobody asks'),
  };
}
