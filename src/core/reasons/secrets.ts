/**
 * Codes of sealed secrets and the key that seals them: a part of the one table in ../reasons.ts.
 */
import type { Reason } from '../reasons.ts';

export const secretReasons = {
  too_many_secrets: {
    status: 409,
    sentence: 'A tenant may have {limit} secrets.',
    fix: 'bin/einsora secrets ls, then: bin/einsora secrets rm NAME',
  },
  unknown_secret: {
    status: 409,
    sentence: 'There is no secret {secret} for its variables to take.',
    fix: 'bin/einsora secrets set {secret}',
  },
  secret_unreadable: {
    status: 409,
    sentence: 'The secret {name} cannot be opened: its row was changed, or its key is gone.',
    fix: 'bin/einsora secrets set {name}',
  },
  deployment_key_missing: {
    status: 409,
    sentence: 'The deployment key is gone from {path}, and what it sealed needs it.',
    fix: 'put the file back from your backup; where it is lost, and every secret with it: bin/einsora up --new-deployment-key',
  },
  deployment_key_wrong: {
    status: 409,
    sentence: '{path} is not the key of this deployment.',
    fix: 'put the right file back from your backup; where it is lost, and every secret with it: bin/einsora up --new-deployment-key',
  },
  deployment_key_exposed: {
    status: 409,
    sentence: '{path} can be read by others on this machine, or is no file.',
    fix: 'chmod 600 {path}',
  },
} as const satisfies Record<string, Reason>;
