/**
 * Codes of stopping what nobody uses: a part of the one table in ../reasons.ts.
 */
import type { Reason } from '../reasons.ts';

export const idleReasons = {
  idle_stopped: {
    status: 409,
    sentence: 'It was stopped because nobody used it for {idle}; whoever asks for it wakes it.',
    fix: 'bin/einsora start {name}',
  },
  idle_soon: {
    status: 409,
    sentence: 'Nobody used it for {idle}: unless somebody does, it is stopped in {left}.',
    fix: 'bin/einsora idle {name} off',
  },
  idle_woken: { status: 409, sentence: 'It was idle and is started again: {how}.', fix: null },
  idle_policy_set: { status: 409, sentence: '{who} set its idle stop to {idle}.', fix: null },
  idle_waking: {
    status: 503,
    sentence: '{name} was idle and is being woken.',
    fix: 'bin/einsora show {name}',
  },
} as const satisfies Record<string, Reason>;
