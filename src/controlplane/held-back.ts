/**
 * What the guard of a machine does to a workload there just now, in a sentence.
 */
import { type GuardWhy, guardPhrase, guardWhys } from '../core/guard.ts';
import { sentenceOf } from '../core/reasons.ts';

/** Null where its run is left alone. */
export function heldBack(run: { guarded: string; machine_name: string } | undefined) {
  const [step, said] = (run?.guarded ?? '').split(' ');
  const why = guardWhys.find((one): one is GuardWhy => one === said);
  if (run === undefined || why === undefined) return null;
  const code = step === 'paused' ? 'run_paused' : 'run_lowered';
  return sentenceOf(code, { why: guardPhrase(why, run.machine_name) });
}
