/**
 * Routes: where the names of a tenant's models lead, with every run that is there, not only those
 * that answer.
 */
import type { DriverName } from '../core/trust.ts';
import type { Query, Row } from './sql.ts';

/** Once for each run of an endpoint that was not followed by another, or once without any. */
export type RouteRow = Row & {
  workload_id: string;
  name: string;
  state: string;
  intent: string;
  park_cause: string;
  replicas: number;
  spec: string;
  replica: number | null;
  run_epoch: number | null;
  wanted: string | null;
  ready_at: number | null;
  machine_id: string | null;
  machine_name: string | null;
  region: string | null;
  placed_class: string | null;
  driver: DriverName | null;
  runtime: string | null;
  fallback: string | null;
};

/** `limit`: endpoints, by name, from the first after `after` on. */
export const listRoutes: Query<{ tenant_id: string; after: string; limit: number }, RouteRow[]> = (
  sql,
  args,
) =>
  sql.all<RouteRow>(
    `with w as (
       select id, name, state, intent, park_cause, replicas, spec from workloads
       where tenant_id = $1 and kind = 'endpoint' and state <> 'deleted' and name > $2
       order by name limit $3)
     select w.id as workload_id, w.name, w.state, w.intent, w.park_cause, w.replicas, w.spec,
       r.replica, r.run_epoch, r.wanted, r.ready_at, r.machine_id, r.placed_class, r.driver,
       r.runtime, r.fallback, m.name as machine_name, m.region
     from w left join runs r on r.workload_id = w.id and r.superseded_at is null
         and r.ended_at is null
       left join machines m on m.id = r.machine_id
     order by w.name, r.replica, r.run_epoch`,
    [args.tenant_id, args.after, args.limit],
  );
