/**
 * Replicas of an endpoint as lines.
 */
import type { Workload } from '../contract/workloads.ts';

/** "2/3 ready"; null where it has one alone. */
export function replicasText({ replicas, replicas_ready }: Workload): string | null {
  return replicas === 1 ? null : `${replicas_ready}/${replicas} ready`;
}

/** A line for each of several. */
export function replicaLines({ replica_states }: Workload): string[] {
  return replica_states.map((one) => {
    const where = one.machine_name === null ? '' : ` on ${one.machine_name}`;
    const run = one.run_epoch === null ? '' : `, run ${one.run_epoch}`;
    const unheard = one.heard_of ? '' : ', its machine is not heard of';
    const why = one.reason === null ? '' : `: ${one.reason.message}`;
    return `  ${one.replica}  ${one.state}${where}${run}${unheard}${why}`;
  });
}
