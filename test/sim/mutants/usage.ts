/**
 * Mutants of what is counted: the ledger and quotas.
 */
import type { Mutant } from './mutant.ts';

export const usageMutants: readonly Mutant[] = [
  {
    name: 'metering-by-wall-clock',
    bug: 'I-20, B-31',
    file: 'src/store/ledger-clock.ts',
    find: '  return row.steady + Math.max(0, Math.floor(at.mono) - row.mono);',
    replace: '  return row.seen_steady + Math.max(0, at.now - row.seen_wall);',
    why: 'a clock that is set makes somebody pay for a year',
  },
  {
    name: 'unheard-machine-metered',
    bug: 'I-21, B-33',
    file: 'src/store/ledger.ts',
    find: `const is_fresh = end === 'event' && steady - proven <= limits.machine_lease_ms;`,
    replace: `const is_fresh = end !== null && proven + limits.machine_lease_ms > 0;`,
    why: 'a machine that burned down is metered until somebody notices',
  },
  {
    name: 'interval-left-open',
    bug: 'I-19, B-33',
    file: 'src/store/moves.ts',
    find: '  if (!isMetered(before.state) || isMetered(moved.state)) return moved;',
    replace: `  if (!isMetered(before.state) || moved.state !== 'pending') return moved;`,
    why: 'what was stopped is metered for ever',
  },
  {
    name: 'metered-while-stopping',
    bug: 'I-19',
    file: 'src/core/states.ts',
    find: `  return state === 'running';`,
    replace: `  return state === 'running' || state === 'stopping';`,
    why: 'who stops something pays until the machine is back',
  },
  {
    name: 'held-interval-left-open',
    bug: 'I-19, B-33',
    file: 'src/store/run-reports.ts',
    find: `    await closeHeld(sql, run, args);
`,
    replace: `    if (observed.state !== 'parked') await closeHeld(sql, run, args);
`,
    why: 'a run that was parked is said to hold its machine for ever',
  },
  {
    name: 'correction-twice',
    bug: 'I-21',
    file: 'src/store/ledger.ts',
    find: '  const from = last.ended_steady ?? 0;',
    replace: '  const from = measured.ended_steady ?? last.ended_steady ?? 0;',
    why: 'time that was missing is added once for each time that somebody hears of it',
  },
  {
    name: 'quota-forgets-the-queued',
    bug: 'I-14, B-19',
    file: 'src/store/quotas.ts',
    find: `const isClaim = \`state not in ('stopped', 'failed', 'deleted')\`;`,
    replace: `const isClaim = \`state not in ('stopped', 'failed', 'deleted', 'pending', 'queued')\`;`,
    why: 'whoever launches quickly enough has no quota',
  },
  {
    name: 'start-ignores-quota',
    bug: 'I-14, B-19',
    file: 'src/store/workloads.ts',
    find: `    if (over !== null) return { ok: false, code: 'quota_exceeded', details: over };
    const set = { intent: 'running'`,
    replace: `    if (args.now < 0) return { ok: false, code: 'quota_exceeded', details: over };
    const set = { intent: 'running'`,
    why: 'what was stopped is started beyond the quota',
  },
];
