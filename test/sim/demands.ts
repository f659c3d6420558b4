/**
 * What users ask for just when it matters: seen in the store, then asked like anything else.
 */
import type { Deployment } from './deployment.ts';

type Context = { deployment: Deployment; later(ms: number, work: () => void): void };

/** By then those that were launched meanwhile are there. */
const taken_ms = 150_000;

/** One of a tenant with a quota stops, and is asked to start once its place is taken. */
export function overfill({ deployment, later }: Context): void {
  const row = deployment.database.watch.get<{ id: string }>(
    `select w.id from workloads w join quotas q on q.tenant_id = w.tenant_id
     where w.state in ('running', 'provisioning', 'queued') order by w.id limit 1`,
  );
  if (row === undefined) return;
  ask(deployment, 'stop', row.id);
  later(taken_ms, () => ask(deployment, 'start', row.id));
}

/** Its place among what was launched is another one once a store was restored. */
export function ask({ client }: Deployment, does: 'stop' | 'start', workload_id: string): void {
  const nth = client.launched.findIndex(({ id }) => id === workload_id);
  if (nth >= 0) client.act({ does, nth, repeats: 0 }, 0);
}
