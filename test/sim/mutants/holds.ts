/**
 * Mutants of runs and holds: what is promised of a machine, and when it is free again.
 */
import type { Mutant } from './mutant.ts';

export const holdMutants: readonly Mutant[] = [
  {
    name: 'hold-released-on-stop-request',
    bug: 'I-02, C4',
    file: 'src/store/workloads.ts',
    find: `  const open =
    wanted === 'park' ? 'ended_at is null and superseded_at is null' : 'removed_at is null';`,
    replace: `  await sql.run(
    'update holds set released_at = 1 where workload_id = $1 and released_at is null',
    [workload_id],
  );
  const open =
    wanted === 'park' ? 'ended_at is null and superseded_at is null' : 'removed_at is null';`,
    why: 'what a run holds is given to others when somebody asks it to stop, while it still runs',
  },
  {
    name: 'lease-expiry-ends-runs',
    bug: 'A6, B-04, B-11',
    file: 'src/store/proofs.ts',
    find: '  return { stepped_ms };',
    replace: `  const lost = steady - 60_000;
  await sql.run(
    \`update holds set released_at = $1 where released_at is null and exists (
       select 1 from runs r where r.workload_id = holds.workload_id
         and r.run_epoch = holds.run_epoch and r.proven_steady < $1)\`,
    [lost],
  );
  await sql.run(
    \`update runs set ended_at = $1, wanted = 'park' where ended_at is null
       and proven_steady < $1\`,
    [lost],
  );
  await sql.run('update machines set generation = generation + 1');
  return { stepped_ms };`,
    why: 'a machine that is not heard of for a minute counts as empty, while its runs go on',
  },
  {
    name: 'unknown-means-ended',
    bug: 'B-24, D1',
    file: 'src/core/judge.ts',
    find: "  if (reported.state === 'unknown') {",
    replace: "  if (reported.state === 'unknown' && run.ended_at !== null) {",
    why: 'a machine that cannot tell what runs is taken for one where nothing does',
  },
  {
    name: 'hold-leaks-after-exit',
    bug: 'C16, B-19',
    file: 'src/store/run-reports.ts',
    find: `  if (ended_at !== null) {
    await sql.run(`,
    replace: `  if (ended_at !== null && observed.state !== 'ended') {
    await sql.run(`,
    why: 'what crashed by itself holds its machine for ever',
  },
  {
    name: 'placement-ignores-holds',
    bug: 'B-01, C14',
    file: 'src/store/place.ts',
    find: 'from holds where machine_id = $1 and released_at is null`,',
    replace: 'from holds where machine_id = $1 and released_at < 0`,',
    also: {
      file: 'src/store/machines.ts',
      find: 'from holds where released_at is null and machine_id > $1',
      replace: 'from holds where released_at < 0 and machine_id > $1',
    },
    why: 'a machine is promised to everybody who asks',
  },
  {
    name: 'controller-ignores-holds',
    bug: 'C14, U1',
    file: 'src/store/machines.ts',
    find: 'from holds where released_at is null and machine_id > $1',
    replace: 'from holds where released_at < 0 and machine_id > $1',
    why: 'the fullest machine is tried for ever while others have room',
  },
  {
    name: 'old-run-moves-workload',
    bug: 'I-10, B-15',
    file: 'src/core/judge.ts',
    find: `  if (run.ended_at !== null) {
    return removed ?`,
    replace: `  if (run.ended_at !== null && run.removed_at !== null) {
    return removed ?`,
    also: {
      file: 'src/core/judge.ts',
      find: 'run.current ? movesOnEnd(run, workload, reported, at) : []',
      replace: 'movesOnEnd(run, workload, reported, at)',
    },
    why: 'the clearing up of an earlier run is taken for the end of the one that runs now',
  },
  {
    name: 'stop-confirmed-at-once',
    bug: 'C4',
    file: 'src/store/workloads.ts',
    find: `    if (open > 0) return moved;
`,
    replace: '',
    why: 'it says stopped while the process still has the GPU',
  },
  {
    name: 'delete-forgets-runs',
    bug: 'C8, C1',
    file: 'src/store/workloads.ts',
    find: 'return left > 0 ? moved : moveWorkload',
    replace: 'return left < 0 ? moved : moveWorkload',
    why: 'a deleted workload leaves a run that nobody knows of',
  },
  {
    name: 'delete-only-parks',
    bug: 'C2',
    file: 'src/store/workloads.ts',
    find: `wantRuns(sql, row.id, 'remove')`,
    replace: `wantRuns(sql, row.id, 'park')`,
    why: 'what is deleted is never taken off the machine',
  },
  {
    name: 'fence-of-a-machine-that-is-back',
    bug: 'I-02, B-11',
    file: 'src/store/agents.ts',
    find: 'if (machine.agent_epoch !== args.agent_epoch)',
    replace: 'if (machine.agent_epoch < args.agent_epoch)',
    why: 'a person says that a machine is off, and it has come back and runs something by then',
  },
];
