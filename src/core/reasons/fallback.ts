/**
 * Codes of fallbacks and of making room: a part of the one table in ../reasons.ts.
 */
import type { Reason } from '../reasons.ts';

export const fallbackReasons = {
  // Asking for it
  fallback_unusable: {
    status: 400,
    sentence: 'The fallback {step} cannot work: {why}.',
    fix: 'bin/einsora catalog, or leave it out',
  },
  unknown_machine: {
    status: 400,
    sentence: 'There is no machine {machine} that you may use.',
    fix: 'bin/einsora machines',
  },
  fallback_not_now: {
    status: 409,
    sentence: '{name} is {state}: fallbacks can be changed while it waits or is stopped.',
    fix: 'bin/einsora stop {name}, then: bin/einsora fallback {name}',
  },
  busy_changing: {
    status: 409,
    sentence: '{name} changed while this was being done; nothing was set.',
    fix: 'try again: bin/einsora fallback {name}',
  },
  asked_machine_gone: {
    status: 409,
    sentence: 'The machine that was asked for, {machine}, is not there any more.',
    fix: 'bin/einsora rm {name}, then launch it for another machine',
  },
  machine_not_asked: {
    status: 409,
    sentence: '{machine} is not the machine that was asked for.',
    fix: null,
  },

  // On the timeline
  placed_by_fallback: {
    status: 409,
    sentence:
      'It asked for {asked} and waited {waited}: placed on {machine} as {placed_class} by fallback {step} of {of} ({to}).',
    fix: 'bin/einsora fallback {name}',
  },
  fallback_set: { status: 409, sentence: '{who} set its fallbacks: {fallback}.', fix: null },
  returning_to_asked: {
    status: 409,
    sentence: 'There is room for {asked} again: it goes back to that from {placed}.',
    fix: 'bin/einsora fallback {name}',
  },

  // Making room
  parked_for_room: {
    status: 409,
    sentence:
      'It was stopped to make room for {room_for}, unused for {idle}; whoever asks for it wakes it.',
    fix: 'bin/einsora start {name}',
  },
  room_made: {
    status: 409,
    sentence: '{who} had idle endpoints stopped to make room for it: {parked}.',
    fix: null,
  },
  no_room_to_make: {
    status: 409,
    sentence: 'Stopping idle endpoints of yours would not make room for {name}.',
    fix: 'bin/einsora show {name}',
  },
  room_changed: {
    status: 409,
    sentence: '{name} is in use again, so nothing was stopped.',
    fix: 'bin/einsora ls, then try again',
  },
  not_waiting: {
    status: 409,
    sentence: '{name} is {state}: it waits for no room.',
    fix: 'bin/einsora show {name}',
  },
} as const satisfies Record<string, Reason>;
