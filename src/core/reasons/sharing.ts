/**
 * Codes of endpoints, their names and to whom they are open: a part of the table in ../reasons.ts.
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
  alias_taken: {
    status: 409,
    sentence: 'Your tenant has something that is called {alias} already.',
    fix: 'bin/einsora routes',
  },
  aliases_full: {
    status: 409,
    sentence: 'An endpoint can have at most {limit} aliases.',
    fix: 'bin/einsora endpoint alias {name} --remove ALIAS',
  },
} as const satisfies Record<string, Reason>;
