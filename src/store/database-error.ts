/**
 * Why a store could not be opened, where a person can mend it: a code of the table of reasons.
 */
export type DatabaseErrorCode =
  | 'database_in_use'
  | 'database_unreachable'
  | 'database_unsuitable'
  | 'store_damaged';

export class DatabaseError extends Error {
  readonly code: DatabaseErrorCode;
  readonly details: Record<string, string>;
  constructor(code: DatabaseErrorCode, message: string, details: Record<string, string>) {
    super(message);
    this.code = code;
    this.details = details;
  }
}
