/**
 * Mutants of the agent: what it adopts, starts, ends and says.
 */
import type { Mutant } from './mutant.ts';

export const agentMutants: readonly Mutant[] = [
  {
    name: 'journal-after-start',
    bug: 'I-05, B-21',
    file: 'src/agent/runs.ts',
    find: '  journal.write(run, { ...entry, ...intent });',
    replace:
      '  queueMicrotask(() => context.clock.sleep(60_000).then(() => journal.write(run, entry)));',
    why: 'an agent that dies early leaves a process that nobody knows of',
  },
  {
    name: 'adopted-run-reported-lost',
    bug: 'B-09, B-21',
    file: 'src/agent/runs.ts',
    find: '    bringUp(context, one, entry.spec);\n  }',
    replace: `    await recordEnd(context, one, 'run_vanished', null);\n  }`,
    why: 'an agent that restarts gives up what still runs',
  },
  {
    name: 'failed-probe-finds-nothing',
    bug: 'B-24, A10',
    file: 'src/agent/runs.ts',
    find: 'of await driver.observe()) {',
    replace: 'of await driver.observe().catch(() => [])) {',
    why: 'a driver that does not answer is taken for one that runs nothing',
  },
  {
    name: 'parked-before-exit',
    bug: 'C4',
    file: 'src/agent/run-life.ts',
    find: '  await driverOf(deps, one).stop(one.run, mode, stop_grace_ms);',
    replace: '  driverOf(deps, one).stop(one.run, mode, stop_grace_ms).catch(() => {});',
    why: 'a stop is confirmed when it is asked for and not when the process is gone',
  },
  {
    name: 'refused-stop-believed',
    bug: 'C18',
    file: 'src/agent/run-life.ts',
    find: '  await driverOf(deps, one).stop(one.run, mode, stop_grace_ms);',
    replace: '  await driverOf(deps, one).stop(one.run, mode, stop_grace_ms).catch(() => {});',
    why: 'what could not be stopped is reported as stopped',
  },
  {
    name: 'failed-run-not-ended',
    bug: 'C4, B-04',
    file: 'src/agent/run-life.ts',
    find: `  await driverOf(deps, one).stop(one.run, 'park', seen_to_end ? 0 : stop_grace_ms);
`,
    replace: '',
    why: 'an engine that hangs is replaced and goes on to hold its memory',
  },
  {
    name: 'empty-before-desired-state',
    bug: 'A1, B-17',
    file: 'src/agent/agent.ts',
    find: '  context.seq = 0;',
    replace: '  context.seq = 0;\n  runs.carryOut(reconcile([], runs.facts()));',
    why: 'an agent that comes back clears up before it was told what should be there',
  },
  {
    name: 'no-news-is-nothing-wanted',
    bug: 'A4, B-07',
    file: 'src/agent/agent.ts',
    find: 'desired = reply.desired ?? desired;',
    replace: 'desired = reply.desired ?? [];',
    why: 'an answer without news is taken for one that wants nothing any more',
  },
  {
    name: 'store-epoch-not-kept',
    bug: 'I-30',
    file: 'src/agent/agent.ts',
    find: '    journal.writeIdentity(identity);',
    replace: '    void identity;',
    why: 'an agent that restarts has forgotten that the store was restored',
  },
  {
    name: 'lost-run-begun-again',
    bug: 'B-21, D9',
    file: 'src/agent/reconcile.ts',
    find: 'if (local === undefined && entry.begun) {',
    replace: 'if (local === undefined && entry.begun && entry.over) {',
    why: 'a run whose journal is lost is started a second time',
  },
  {
    name: 'orphan-left-running',
    bug: 'C1, B-07',
    file: 'src/agent/reconcile.ts',
    find: `    else steps.push({ step: 'stop', run: local.run, mode: 'remove' });
`,
    replace: '',
    why: 'what was deleted while the machine was away runs on when it is back',
  },
  {
    name: 'trust-lost-not-parked',
    bug: 'I-11',
    file: 'src/store/sharing.ts',
    find: '    return !mayRunThere(workload_tenant_id, { driver, as: driver_as }, run);',
    replace: '    return workload_tenant_id === driver && driver_as === null;',
    why: 'a machine that is no longer shared goes on to run what others brought',
  },
  {
    name: 'placement-ignores-trust',
    bug: 'I-11, E12',
    file: 'src/core/suitable.ts',
    find: '    if (!mayRun(trust, entry.driver, machine.sharing, entry.as)) continue;\n',
    replace: '',
    also: {
      file: 'src/store/sharing.ts',
      find: '  return row !== undefined && mayRunThere(tenant_id, { driver, as }, row);',
      replace: '  return row !== undefined;',
    },
    why: 'weak isolation is given to somebody who is not the owner',
  },
];
