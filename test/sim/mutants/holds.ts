/**
 * Mutants of runs and holds: what is promised of a machine, and when it is free again.
 */
import type { Mutant } from './mutant.ts';

export const holdMutants: readonly Mutant[] = [
  {
    name: 'hold-released-on-stop-request',
    bug: 'I-02',
    file: 'src/store/workloads.ts',
    find: `  const open = wanted === 'park' ? 'ended_at is null' : 'removed_at is null';`,
    replace: `  await sql.run(
    'update holds set released_at = 1 where workload_id = $1 and released_at is null',
    [workload_id],
  );
  const open = wanted === 'park' ? 'ended_at is null' : 'removed_at is null';`,
    why: 'what a run holds is given to others when somebody asks it to stop, while it still runs',
  },
];
