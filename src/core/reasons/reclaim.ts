/**
 * Codes of machines that their owners take back: a part of the one table in ../reasons.ts. None of
 * them is a failure of the workload or of whoever launched it.
 */
import type { Reason } from '../reasons.ts';

const machines = 'bin/einsora machines';

export const reclaimReasons = {
  // Why it is taken back: the guard's reasons are in guard.ts
  owner_asked: { status: 409, sentence: '{machine} is wanted back by its owner.', fix: machines },

  // Told to those who run something there
  reclaim_planned: {
    status: 409,
    sentence: 'The owner of {machine} takes it back at {at}: from then on this has {grace}.',
    fix: machines,
  },
  reclaim_soon: {
    status: 409,
    sentence: 'The owner of {machine} takes it back: this stops in {left} ({why}).',
    fix: machines,
  },
  reclaim_called_off: {
    status: 409,
    sentence: 'The owner of {machine} does not take it back after all: this goes on.',
    fix: null,
  },
  preempted: {
    status: 409,
    sentence: 'It was stopped because the owner of {machine} took it back ({why}).',
    fix: machines,
  },
  replica_preempted: {
    status: 409,
    sentence: 'Replica {replica} goes elsewhere: the owner of {machine} took it back ({why}).',
    fix: machines,
  },
  preempted_waits: {
    status: 409,
    sentence: 'The owner of {machine} took it back: this goes on by itself once it is free again.',
    fix: 'bin/einsora machines, or give it up: bin/einsora stop {name}',
  },
  preempted_goes_on: { status: 409, sentence: '{machine} is free again: it goes on.', fix: null },

  // Answers to the owner
  reclaim_in_effect: {
    status: 409,
    sentence: '{machine} is taken back already: what is to begin later is asked for after that.',
    fix: 'bin/einsora machine release {machine}',
  },
  not_reclaimed: { status: 409, sentence: '{machine} is not taken back.', fix: machines },
  reclaimed_by_guard: {
    status: 409,
    sentence: '{machine} keeps guests off by itself, as its own settings say: {why}.',
    fix: 'on that machine: bin/einsora machine policy show',
  },
} as const satisfies Record<string, Reason>;
