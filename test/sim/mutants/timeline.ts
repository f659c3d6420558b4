/**
 * Mutants of what is recorded: events, keys of requests, what a person asked for.
 */
import type { Mutant } from './mutant.ts';

export const timelineMutants: readonly Mutant[] = [
  {
    name: 'event-dropped',
    bug: 'I-17, D10',
    file: 'src/store/moves.ts',
    find: `  await insertEvent(sql, row.id, number, at, cause, {
    kind: 'state',
    event: move.event,`,
    replace: `  if (move.event !== 'parked') await insertEvent(sql, row.id, number, at, cause, {
    kind: 'state',
    event: move.event,`,
    why: 'the timeline does not say that it stopped',
  },
  {
    name: 'event-number-skipped',
    bug: 'I-18',
    file: 'src/store/moves.ts',
    find: `  const number = row.event_number + 1;
  const details =`,
    replace: `  const number = row.event_number + (move.event === 'replace' ? 2 : 1);
  const details =`,
    why: 'whoever follows a timeline by number waits for one that never comes',
  },
  {
    name: 'event-time-by-wall-clock',
    bug: 'I-18, B4',
    file: 'src/store/moves.ts',
    find: `  const at = Math.max(cause.now, row.event_at);
  const number = row.event_number + 1;
  const details`,
    replace: `  const at = cause.now;
  const number = row.event_number + 1;
  const details`,
    why: 'a clock that is set back makes the timeline turn back',
  },
  {
    name: 'queued-without-a-word',
    bug: 'I-17, D10',
    file: 'src/store/moves.ts',
    find: 'from workloads where id ',
    replace: 'from workloads where event_number < 4 and id ',
    why: 'the timeline does not say that it waits again, and for what',
  },
  {
    name: 'queued-by-wall-clock',
    bug: 'I-18, B4',
    file: 'src/store/moves.ts',
    find: "const later = 'case when event_at > $1 then event_at else cast($1 as bigint) end';",
    replace: "const later = 'cast($1 as bigint)';",
    why: 'a clock that is set back makes the timeline of what waits turn back',
  },
  {
    name: 'key-not-recorded',
    bug: 'I-23, U8',
    file: 'src/store/idempotency.ts',
    find: `  const result = await action();
  await sql.run(`,
    replace: `  const result = await action();
  if (now < 0) await sql.run(`,
    why: 'a launch that is asked for again, for want of an answer, launches twice',
  },
  {
    name: 'key-of-another-request',
    bug: 'I-23',
    file: 'src/store/idempotency.ts',
    find: 'if (earlier.request_hash !== key.request_hash)',
    replace: 'if (earlier.request_hash === null)',
    why: 'a key that is used for something else is answered as if that had been done',
  },
  {
    name: 'key-forgotten-early',
    bug: 'I-23',
    file: 'src/store/idempotency.ts',
    find: 'from idempotency where round <= $1 order',
    replace: 'from idempotency where round <= $1 + 1000000 order',
    why: 'a key is kept for an hour where a day is promised',
  },
  {
    name: 'start-while-stopping-lost',
    bug: 'D1',
    file: 'src/store/workloads.ts',
    find: `      return setIntent(sql, row, 'running', park_cause);
`,
    replace: '',
    why: 'who stops and starts at once ends with something that is stopped',
  },
  {
    name: 'retries-without-bound',
    bug: 'A14, C14',
    file: 'src/core/judge.ts',
    find: 'if (attempts >= attempt_limit) {',
    replace: 'if (attempts < 0) {',
    why: 'what crashes at its start is started for ever',
  },
  {
    name: 'retry-without-back-off',
    bug: 'A14',
    file: 'src/core/judge.ts',
    find: 'const not_before = at.now + backOff_ms(attempts);',
    replace: 'const not_before = at.now;',
    why: 'what crashes at its start is started again at once',
  },
  {
    name: 'back-off-by-wall-clock',
    bug: 'B4, B-16',
    file: 'src/store/queue.ts',
    find: 'and (not_before <= $1 or not_before > $4)',
    replace: 'and (not_before <= $1 or $4 < 0)',
    why: 'a clock that is set back by a year makes a retry wait for a year',
  },
];
