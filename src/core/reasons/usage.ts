/**
 * Codes of quotas and the ledger: a part of the one table in ../reasons.ts.
 */
import type { Reason } from '../reasons.ts';

export const usageReasons = {
  quota_exceeded: {
    status: 409,
    sentence: 'This would be over the quota of {whose}: {said}.',
    fix: 'bin/einsora ls, then stop what is not needed: bin/einsora stop <name>',
  },
  clock_stepped: {
    status: 200,
    sentence:
      'The wall clock moved by {moved} meanwhile; usage was counted by a clock that does not.',
    fix: 'bin/einsora usage',
  },
} as const satisfies Record<string, Reason>;
