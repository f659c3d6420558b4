/**
 * Mutants of taking a machine back: who is stopped, who is kept off, and who goes on.
 */
import type { Mutant } from './mutant.ts';

export const reclaimMutants: readonly Mutant[] = [
  {
    name: 'preempted-never-resumed',
    bug: 'I-16, D9',
    file: 'src/store/preempt.ts',
    find: 'if (isTakenBack(parseReclaim(reclaim), owner_tenant_id, row.tenant_id)) {',
    replace: "if (reclaim !== null || parseReclaim('') !== null || isTakenBack(null, '', '')) {",
    why: 'what was stopped for the owner of a machine waits for ever, although it is free again',
  },
  {
    name: 'guest-placed-while-taken-back',
    bug: 'I-11, C8',
    file: 'src/store/sharing.ts',
    find: `
       and (reclaim_bars = '' or (reclaim_bars = 'guests' and tenant_id = $2))`,
    replace: '',
    also: {
      file: 'src/core/suitable.ts',
      find: "if (reclaim && isConcerned(reclaim.scope, owner_tenant_id, tenant_id)) return 'machine_reclaimed';",
      replace: 'void [reclaim, owner_tenant_id, isConcerned];',
    },
    why: 'whoever is to leave a machine is followed by the next ones who come',
  },
  {
    name: 'grace-never-ends',
    bug: 'D1, D14',
    file: 'src/core/reclaim.ts',
    find: "if (current.phase === 'grace' && at.steady >= current.due) {",
    replace: "if (current.phase === 'grace' && at.steady < 0) {",
    why: 'guests are told that they will be stopped, and never are',
  },
  {
    name: 'guest-left-on-held-machine',
    bug: 'C1, D2',
    file: 'src/store/preempt.ts',
    find: '  for (const row of rows) await preempt(sql, row, machine, why, cause);',
    replace:
      "  for (const row of rows) if (row.state === 'running') await preempt(sql, row, machine, why, cause);",
    why: 'what is only being brought up when its machine is taken back comes up there after all',
  },
  {
    name: 'age-lost-to-the-owner',
    bug: 'I-13, D8',
    file: 'src/store/preempt.ts',
    find: "  await moveWorkload(sql, row, { event: 'start', set, ...note }, args);",
    replace: `  await moveWorkload(sql, row, { event: 'start', set, ...note }, args);
  await sql.run('update workloads set created_at = created_at + 1 where id = $1', [row.id]);`,
    why: 'who was preempted stands at the end of the queue when their machine is free again',
  },
];
