/**
 * Codes of the guard of a machine's owner: a part of the one table in ../reasons.ts. None of them
 * is a failure of the workload or of whoever launched it.
 */
import type { Reason } from '../reasons.ts';

const why = (sentence: string) => ({ status: 409, sentence, fix: 'bin/einsora machines' });

export const guardReasons = {
  // Why a machine is given back to its owner
  owner_paused: {
    status: 409,
    sentence: '{machine} was paused by its owner.',
    fix: 'on that machine: bin/einsora resume',
  },
  owner_active: why('{machine} is in use by its owner.'),
  foreign_gpu: why('{machine} has a GPU that programs of its owner use.'),
  hot: why('{machine} is too hot.'),
  on_battery: why('{machine} runs on its battery.'),
  memory_low: why('{machine} has little memory left.'),
  disk_floor: why('{machine} has little disk left.'),
  outside_hours: why('{machine} is lent at other hours only.'),
  cpu_busy: why('{machine} needs its processor for programs of its owner.'),

  // What follows from it
  machine_guarded: why('{machine} takes nothing new of guests for now: {why}.'),
  machine_low: why('{machine} starts nothing new for now: {why}.'),
  all_matching_guarded: why('Every machine that could run this is needed by its owner just now.'),
  refused_by_machine: {
    status: 409,
    sentence:
      "The owner of {machine} does not let guests do that there (rule {rule} of the machine's policy).",
    fix: 'bin/einsora machines, or on that machine: bin/einsora machine policy show',
  },
  run_lowered: why('It gets little CPU for now: {why}.'),
  run_paused: why('It stands still for now, and goes on where it was: {why}.'),
  run_raised: why('It gets as much CPU as before.'),
  run_resumed: why('It goes on, after {paused}.'),
  policy_invalid: {
    status: 400,
    sentence: '{path} is no policy of a machine: {problem}.',
    fix: 'bin/einsora machine policy check {path}',
  },
} as const satisfies Record<string, Reason>;
