/**
 * The activity log: who did what, under which request.
 *
 * Invariants: the row is written in the action's own transaction, so there is no effect without it
 * and no row without its effect; details hold no secret.
 */
import type { Details } from '../core/reasons.ts';
import type { Sql } from './sql.ts';

/** Who acts, and under which request: made once a request, handed to each named transaction. */
export type Action = {
  /** Of the row; made from the time, so that rows sort by it. */
  id: string;
  /** Whose log it goes to. */
  tenant_id: string;
  user_id: string | null;
  /** `user:ada`, `controller`, … */
  actor: string;
  via: 'token' | 'session' | 'anyone' | 'system';
  /** The session or token that proved it. */
  proof_id: string | null;
  request_id: string;
  /** What the client called the request; never used for logic. */
  client_request_id?: string | null;
  /** Name of the route in the contract. */
  route: string;
  now: number;
};

/** An action of which only the transaction learns who acts (signing in). */
export type Attempt = Omit<Action, 'tenant_id' | 'user_id' | 'actor' | 'proof_id'>;

/** The action that an attempt became. */
export function actionBy(
  attempt: Attempt | undefined,
  who: { tenant_id: string; user_id: string; user_name: string; proof_id: string | null },
): Action | undefined {
  if (attempt === undefined) return undefined;
  const { tenant_id, user_id, user_name, proof_id } = who;
  return { ...attempt, tenant_id, user_id, actor: `user:${user_name}`, proof_id };
}

/**
 * Records that an action was done. `target` is `<noun>:<id>`, such as `workload:0698…`. Nothing is
 * recorded where no request asked for it (the controller, a test).
 */
export async function recordAction(
  sql: Sql,
  action: Action | undefined,
  what: { target: string | null; details?: Details },
): Promise<void> {
  if (action === undefined) return;
  const { target, details = {} } = what;
  const added = await insertActivity(sql, { action, target, outcome: 'done', details });
  if (added !== 1) throw new Error('one action was recorded twice');
}

/** Adds a row of the log; 0 where its id is there already. */
export function insertActivity(
  sql: Sql,
  row: { action: Action; target: string | null; outcome: string; details: Details },
): Promise<number> {
  const { action, target, outcome, details } = row;
  return sql.run(
    `insert into activity (id, tenant_id, at, user_id, actor, via, proof_id, request_id,
       client_request_id, route, target, outcome, details)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
     on conflict (id) do nothing`,
    [
      action.id,
      action.tenant_id,
      action.now,
      action.user_id,
      action.actor,
      action.via,
      action.proof_id,
      action.request_id,
      action.client_request_id ?? null,
      action.route,
      target,
      outcome,
      JSON.stringify(details),
    ],
  );
}
