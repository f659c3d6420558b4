/**
 * Mutants of replicas: what one of several says of its workload, and what one that another run
 * follows says no more.
 */
import type { Mutant } from './mutant.ts';

export const replicaMutants: readonly Mutant[] = [
  {
    name: 'one-replica-moves-all',
    bug: 'I-10',
    file: 'src/core/replicas.ts',
    find: '  if (ready > 0) return null;\n',
    replace: '',
    why: 'an endpoint is down as soon as one of its replicas is, while another one answers',
  },
  {
    name: 'followed-run-speaks',
    bug: 'I-10, I-03',
    file: 'src/store/run-reports.ts',
    find: 'current: run.superseded_at === null }',
    replace: 'current: run.superseded_at !== 0 }',
    why: 'what comes back after it was replaced decides about the endpoint that runs elsewhere',
  },
  {
    name: 'followed-run-goes-on',
    bug: 'I-03',
    file: 'src/store/place.ts',
    find: "update runs set wanted = 'remove', superseded_at = $3",
    replace: 'update runs set superseded_at = $3',
    why: 'a machine that comes back keeps a run that nobody wants, for ever',
  },
  {
    name: 'stop-confirmed-by-one-replica',
    bug: 'I-02, C4',
    file: 'src/core/judge.ts',
    find: '    if ((workload.siblings?.open ?? 0) > 0) return [];\n',
    replace: '',
    why: 'it says stopped while another replica still has its GPU',
  },
  {
    name: 'later-replica-unmetered',
    bug: 'I-19',
    file: 'src/store/run-reports.ts',
    find: 'if (counts) await openInterval(',
    replace: 'if (counts && row.revision < 0) await openInterval(',
    why: 'of an endpoint with many replicas only the first is ever counted',
  },
];
