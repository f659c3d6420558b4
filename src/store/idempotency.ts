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
    `insert into idempotency (principal, key, request_hash, result, created_at)
     values ($1, $2, $3, $4, $5)`,
    [key.principal, key.key, key.request_hash, JSON.stringify(result), now],
  );
  return { outcome: 'done', result };
}

/** Forgets keys older than `before`, at most 1,000 at a time. */
export async function forgetIdempotencyKeys(
  sql: Sql,
  args: { before: number },
): Promise<{ forgotten: number }> {
  const forgotten = await sql.run(
    `delete from idempotency where (principal, key) in
       (select principal, key from idempotency where created_at < $1
        order by created_at limit 1000)`,
    [args.before],
  );
  return { forgotten };
}
