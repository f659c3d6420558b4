/**
 * Mutants of the numbers that say which store, which agent, which report and which generation
 * counts (I-08, I-09, I-30).
 */
import type { Mutant } from './mutant.ts';

export const epochMutants: readonly Mutant[] = [
  {
    name: 'stale-report-accepted',
    bug: 'I-09, B-17',
    file: 'src/backends/agent/sync.ts',
    find: `  if (report.seq <= session.seq) return { outcome: 'stale_report' };
`,
    replace: '',
    why: 'a report that was overtaken on its way undoes what a later one said',
  },
  {
    name: 'agent-epoch-ignored',
    bug: 'A9, B-20',
    file: 'src/backends/agent/sync.ts',
    find: `  if (report.agent_epoch < session.agent_epoch) return { outcome: 'stale_agent' };
`,
    replace: '',
    why: 'an agent that was superseded goes on speaking for the machine',
  },
  {
    name: 'late-hello-supersedes',
    bug: 'A9, B-20',
    file: 'src/store/agents.ts',
    find: '  if (told < agent_epoch && (args.known === null || !is_first)) {',
    replace: '  if (told < -1 && (args.known === null || !is_first)) {',
    also: {
      file: 'src/store/agents.ts',
      find: 'if (row.hello_id === args.hello_id)',
      replace: 'if (row.hello_id === args.hello_id && args.now < 0)',
    },
    why: 'a hello that comes late or twice ends the agent that has spoken since',
  },
  {
    name: 'cloned-disk-takes-over',
    bug: 'B-20, B2',
    file: 'src/store/agents.ts',
    find: `  if (is_other_boot && args.is_heard) return { outcome: 'other_boot' };
`,
    replace: '',
    why: 'a copy of a data folder on another computer speaks for the machine that is well',
  },
  {
    name: 'older-store-obeyed',
    bug: 'I-30, B-25',
    file: 'src/agent/agent.ts',
    find: '  if (told.store_epoch < known.store_epoch) throw new Error(refusals.newer_store);',
    replace: '  void refusals;',
    also: {
      file: 'src/store/agents.ts',
      find: 'if ((args.known?.store_epoch ?? 0) > store.store_epoch)',
      replace: 'if ((args.known?.store_epoch ?? 0) < 0)',
    },
    why: 'agents obey the control plane from before a restore as well',
  },
  {
    name: 'restore-keeps-store-epoch',
    bug: 'B-25',
    file: 'src/store/restore.ts',
    find: 'const store_epoch = (await readStoreEpoch(sql)).store_epoch + 1;',
    replace: 'const { store_epoch } = await readStoreEpoch(sql);',
    why: 'nobody can tell a restored store from the one that it was copied from',
  },
  {
    name: 'restore-reuses-run-epochs',
    bug: 'B-25',
    file: 'src/store/restore.ts',
    find: 'return Math.max(row.run_epoch + 1, row.restored_epoch * run_epochs_each);',
    replace: 'return row.run_epoch + Math.min(1, run_epochs_each);',
    why: 'a restored store gives a new run the number of one that it has forgotten',
  },
  {
    name: 'restore-places-at-once',
    bug: 'I-30',
    file: 'src/store/restore.ts',
    find: '  if (restored_epoch === 0) return true;',
    replace: '  if (restored_epoch >= 0) return true;',
    also: {
      file: 'src/store/place.ts',
      find: 'and reconciled_epoch >=',
      replace: 'and reconciled_epoch + 1000000 >=',
    },
    why: 'a restored store runs again what it has forgotten that it runs',
  },
  {
    name: 'restore-begins-runs-anew',
    bug: 'I-30, I-06',
    file: 'src/store/restore.ts',
    find: 'where ended_at is null and proven_at is null',
    replace: 'where ended_at < 0 and proven_at is null',
    why: 'a run that ended after the copy was made is begun once more',
  },
  {
    name: 'generation-stays-on-stop',
    bug: 'I-08, C1',
    file: 'src/store/workloads.ts',
    find: '  await bumpMachinesOf(sql, workload_id);',
    replace: '  void bumpMachinesOf;',
    why: 'the machine never hears of a stop',
  },
  {
    name: 'generation-stays-on-place',
    bug: 'I-08, A1',
    file: 'src/store/place.ts',
    find: `  await bumpMachinesOf(sql, row.id);
`,
    replace: '',
    why: 'the machine never hears of a new run',
  },
  {
    name: 'generation-stays-on-report',
    bug: 'I-08',
    file: 'src/store/run-reports.ts',
    find: 'if (removed_at !== null || wanted !== run.wanted || first_word || ends) {',
    replace: 'if (removed_at !== null) {',
    why: 'the machine still has that a run which ended should run',
  },
];
