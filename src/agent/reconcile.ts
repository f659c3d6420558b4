/**
 * What an agent has to do next: a pure comparison of the desired state with what is here.
 *
 * Invariants: without a complete desired state nothing is stopped or removed; what is healthy is
 * left alone; what ended, or was here and is lost, is not started again (a run is one attempt); a
 * run that nobody explains is removed.
 */
import type { DesiredRun } from '../contract/sync.ts';
import { type RunKey, runName } from '../core/run.ts';
import type { Phase } from './local-run.ts';

export type LocalFacts = {
  run: RunKey;
  phase: Phase;
  /** Somebody is at work on it: being brought up, watched, or stopped. */
  busy: 'no' | 'bringing-up' | 'stopping';
};

export type Step =
  | { step: 'bring-up'; desired: DesiredRun }
  | { step: 'stop'; run: RunKey; mode: 'park' | 'remove' }
  /** Nothing of its workload is wanted any more: what that keeps here goes with it. */
  | { step: 'erase'; run: RunKey; driver: string }
  /** It was here, and nothing of it is: say that it ended. */
  | { step: 'report-lost'; run: RunKey; driver: string }
  /** Nothing of it is here: say so. `driver`: who would know, empty where its end is proven. */
  | { step: 'report-absent'; run: RunKey; driver: string; phase: 'parked' | 'removed' }
  /** The control plane knows that it is gone. */
  | { step: 'forget'; run: RunKey };

export function reconcile(desired: readonly DesiredRun[], here: readonly LocalFacts[]): Step[] {
  const wanted = new Map(desired.map((entry) => [runName(entry), entry]));
  const known = new Map(here.map((local) => [runName(local.run), local]));
  const steps: Step[] = [];
  for (const entry of desired) {
    const step = stepFor(entry, known.get(runName(entry)));
    if (step !== null) steps.push(step);
  }
  for (const local of here) {
    if (wanted.has(runName(local.run)) || local.busy === 'stopping') continue;
    if (local.phase === 'removed') steps.push({ step: 'forget', run: local.run });
    else steps.push({ step: 'stop', run: local.run, mode: 'remove' });
  }
  return steps;
}

function stepFor(entry: DesiredRun, local: LocalFacts | undefined): Step | null {
  const { workload_id, replica, run_epoch, action } = entry;
  const run = { workload_id, replica, run_epoch };
  if (local?.busy === 'stopping') return null;
  if (action === 'run') {
    if (local === undefined && entry.begun) {
      return { step: 'report-lost', run, driver: entry.driver };
    }
    const idle = local === undefined || (local.phase === 'preparing' && local.busy === 'no');
    return idle ? { step: 'bring-up', desired: entry } : null;
  }
  if (entry.erase && local?.phase !== 'removed') {
    return { step: 'erase', run, driver: entry.driver };
  }
  const phase = action === 'park' ? 'parked' : 'removed';
  if (local === undefined) {
    const driver = entry.over ? '' : entry.driver;
    return { step: 'report-absent', run, driver, phase };
  }
  if (local.phase === phase || local.phase === 'removed') return null;
  return { step: 'stop', run, mode: action };
}
