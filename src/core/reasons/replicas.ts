/**
 * Codes of what happens to replicas of endpoints: a part of the one table in ../reasons.ts.
 */
import type { Reason } from '../reasons.ts';

export const replicaReasons = {
  replica_placed: {
    status: 409,
    sentence: 'Replica {replica} was placed on {machine} by {driver} as {placed_class}.',
    fix: null,
  },
  replica_ready: { status: 409, sentence: 'Replica {replica} answered on {machine}.', fix: null },
  replica_lost: {
    status: 409,
    sentence: 'Replica {replica} ended and is to run again: {why}',
    fix: 'bin/einsora logs {name} --replica {replica}',
  },
  replica_failed: {
    status: 409,
    sentence: 'Replica {replica} failed and is not tried again by itself: {why}',
    fix: 'bin/einsora start {name}',
  },
  replica_waits: { status: 409, sentence: 'Replica {replica} waits: {why}', fix: null },
  replica_taken_away: {
    status: 409,
    sentence: 'Replica {replica} may not run on {machine} any more and is to run elsewhere.',
    fix: null,
  },
  replicas_scaled: {
    status: 409,
    sentence: '{who} asked for {to} instead of {from}.',
    fix: null,
  },
  replica_unheard: {
    status: 409,
    sentence:
      '{machine} has not been heard of since {since}: another run takes the place of the one there, which gets no requests any more.',
    fix: 'bin/einsora machine ls',
  },
  replicas_endpoints_only: {
    status: 400,
    sentence: 'Only endpoints have replicas, and {name} is no endpoint.',
    fix: 'bin/einsora ls',
  },
} as const satisfies Record<string, Reason>;
