/**
 * Codes of endpoints that are open to others: a part of the one table in ../reasons.ts.
 */
import type { Reason } from '../reasons.ts';

export const sharingReasons = {
  machine_not_shared: {
    status: 409,
    sentence: 'Nobody of {tenant} could reach it: {machine} is not shared with them.',
    fix: 'bin/einsora machine share {machine} --invite {tenant}',
  },
  endpoint_guests_full: {
    status: 409,
    sentence: 'An endpoint can be open to at most {limit} tenants by name.',
    fix: 'bin/einsora endpoint share <name> --community',
  },
} as const satisfies Record<string, Reason>;
