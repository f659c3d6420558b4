/**
 * What a store that refuses, or a data folder without room, means to who asked.
 */
import { EinsoraError } from '../contract/errors.ts';
import { isErrno } from '../lib/files.ts';
import { StoreError } from '../store/sql.ts';

/**
 * The EinsoraError for a store that is full, failing or cannot say; null for every other error (a
 * constraint that nobody expected is a defect, and told as one).
 */
export function storeRefusal(error: unknown, data_dir: string): EinsoraError | null {
  if (isErrno(error, 'ENOSPC')) return new EinsoraError('store_full', { data_dir }, error);
  if (!(error instanceof StoreError)) return null;
  switch (error.code) {
    case 'store_full':
      return new EinsoraError('store_full', { data_dir }, error);
    case 'store_failing':
    case 'outcome_unknown':
      return new EinsoraError(error.code, {}, error);
    case 'unique':
    case 'foreign':
    case 'check':
    case 'rejected':
      return null;
  }
}
