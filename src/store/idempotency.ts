/**
 * Idempotency: a repeat with the same key has the effect and the answer of one call.
 *
 * Invariants: the key is recorded in the action's own transaction; it belongs to its principal; the
 * same key with another request is refused; what is kept holds no secret.
 */
import type { Json, Sql } from './sql.ts';

export type IdempotencyKey = { principal: string; key: string; request_hash: string } | null;

export type Idempotent<Result> =
  | { outcome: 'done'; result: Result }
  | { outcome: 'idempotency_key_reused' };

/** Runs `action` unless the key was used: then its first result is answered again. */
export async function once<Result extends Json>(
  sql: Sql,
  key: IdempotencyKey,
  now: number,
  action: () => Promise<Result>,
): Promise<Idempotent<Result>> {
  if (key === null) return { outcome: 'done', result: await action() };
  const earlier = await sql.get<{ request_hash: string; result: string }>(
    'select request_hash, result from idempotency where principal = $1 and key = $2',
    [key.principal, key.key],
  );
  if (earlier !== undefined) {
    if (earlier.request_hash !== key.request_hash) return { outcome: 'idempotency_key_reused' };
    return { outcome: 'done', result: JSON.parse(earlier.result) as Result };
  }
  const result = await action();
  await sql.run(
    `insert into idempotency (principal, key, request_hash, result, created_at, round)
     values ($1, $2, $3, $4, $5,
       coalesce((select cast(value as bigint) from meta where key = 'housekeeping_round'), 0))`,
    [key.principal, key.key, key.request_hash, JSON.stringify(result), now],
  );
  return { outcome: 'done', result };
}

/**
 * One more round of housekeeping: forgets keys that are `kept_rounds` old, at most 1,000 at a time.
 * Rounds come at a pace of their own, so a wall clock that jumps a year ahead makes no key old.
 */
export async function forgetIdempotencyKeys(
  sql: Sql,
  args: { kept_rounds: number },
): Promise<{ forgotten: number }> {
  const row = await sql.get<{ value: string }>(
    `insert into meta (key, value) values ('housekeeping_round', '1')
     on conflict (key) do update
       set value = cast(cast(meta.value as bigint) + 1 as text) returning value`,
  );
  const forgotten = await sql.run(
    `delete from idempotency where (principal, key) in
       (select principal, key from idempotency where round <= $1 order by round limit 1000)`,
    [Number(row?.value ?? 0) - args.kept_rounds],
  );
  return { forgotten };
}
