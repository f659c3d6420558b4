/**
 * The migrations of this version, oldest first. One that was released is never changed again.
 */
import type { Migration } from '../migrate.ts';
import { solo } from './0001-solo.ts';
import { accounts } from './0002-accounts.ts';
import { quotaLedger } from './0003-quota-ledger.ts';
import { activitySecrets } from './0004-activity-secrets.ts';
import { modelFiles } from './0005-model-files.ts';
import { admission } from './0006-admission.ts';
import { agents } from './0007-agents.ts';
import { access } from './0008-access.ts';
import { samples } from './0009-samples.ts';
import { kinds } from './0010-kinds.ts';
import { runKeys } from './0011-run-keys.ts';
import { law } from './0012-law.ts';
import { keyLimits } from './0013-key-limits.ts';
import { requests } from './0014-requests.ts';
import { aliases } from './0015-aliases.ts';
import { requestsOfUser } from './0016-requests-of-user.ts';

export const migrations: readonly Migration[] = [
  solo,
  accounts,
  quotaLedger,
  activitySecrets,
  modelFiles,
  admission,
  agents,
  access,
  samples,
  kinds,
  runKeys,
  law,
  keyLimits,
  requests,
  aliases,
  requestsOfUser,
];
