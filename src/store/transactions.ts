/**
 * The registry of named transactions: everything that writes the store, by name. The writing worker
 * imports this file, so nothing here may reach beyond the store and core.
 */
import { addAccessTicket, redeemAccessTicket, renewAccessSession } from './access.ts';
import {
  addSignInLink,
  closeSession,
  openSession,
  replaceOwnerToken,
  setUp,
  touchSession,
  touchToken,
} from './accounts.ts';
import { recordNotes } from './activity-notes.ts';
import { eraseActivity, sealActivity } from './activity-seal.ts';
import { fenceMachine, greetMachine, shareMachine } from './agents.ts';
import { recordExec, recordFileChange } from './exec.ts';
import { forgetIdempotencyKeys } from './idempotency.ts';
import { noteIdleSoon, parkIdle, setIdlePolicy, wakeIdle } from './idle.ts';
import { createInvitation, redeemInvitation, revokeInvitation } from './invitations.ts';
import { createKey, revokeKey } from './keys.ts';
import { startLedgerClock } from './ledger-clock.ts';
import { addMachine, updateInventory } from './machines.ts';
import { applyModelFiles, wishModelFile } from './model-files.ts';
import { rehashPassword, resetPassword, setPassword } from './passwords.ts';
import { placeWorkload } from './place.ts';
import { deductSleep, proveRunning } from './proofs.ts';
import { queueWorkloads } from './queue.ts';
import { setQuota } from './quota-limits.ts';
import { restoreStore } from './restore.ts';
import { forgetRunKeys, keepRunKey } from './run-keys.ts';
import { applyReport } from './run-reports.ts';
import { recordSamples, saveUses } from './samples.ts';
import {
  forgetSecrets,
  noteDeploymentKey,
  removeSecret,
  resealSecret,
  setSecret,
} from './secrets.ts';
import { revokeSession, revokeSessions, signInByPassword } from './sessions.ts';
import type { Store, TransactionTable } from './sql.ts';
import { createTenant, renameTenant, setTenantDisabled } from './tenants.ts';
import { createToken, logIn, revokeToken } from './tokens.ts';
import { addResetLink, disableUser, enableUser, setUserRole } from './users.ts';
import { noteVisit } from './visits.ts';
import { deleteWorkload, launchWorkload, startWorkload, stopWorkload } from './workloads.ts';

export const transactions = {
  addAccessTicket,
  addMachine,
  addResetLink,
  addSignInLink,
  applyModelFiles,
  applyReport,
  closeSession,
  createInvitation,
  createKey,
  createTenant,
  createToken,
  deductSleep,
  deleteWorkload,
  disableUser,
  enableUser,
  eraseActivity,
  fenceMachine,
  forgetIdempotencyKeys,
  forgetRunKeys,
  forgetSecrets,
  greetMachine,
  keepRunKey,
  launchWorkload,
  logIn,
  noteDeploymentKey,
  noteIdleSoon,
  noteVisit,
  openSession,
  parkIdle,
  placeWorkload,
  proveRunning,
  queueWorkloads,
  redeemAccessTicket,
  redeemInvitation,
  rehashPassword,
  recordExec,
  recordFileChange,
  recordNotes,
  recordSamples,
  removeSecret,
  renameTenant,
  renewAccessSession,
  replaceOwnerToken,
  resealSecret,
  resetPassword,
  restoreStore,
  revokeInvitation,
  revokeKey,
  revokeSession,
  revokeSessions,
  revokeToken,
  saveUses,
  setIdlePolicy,
  setPassword,
  setQuota,
  sealActivity,
  setSecret,
  setTenantDisabled,
  setUp,
  setUserRole,
  shareMachine,
  signInByPassword,
  startLedgerClock,
  startWorkload,
  stopWorkload,
  touchSession,
  touchToken,
  updateInventory,
  wakeIdle,
  wishModelFile,
} satisfies TransactionTable;

export type EinsoraStore = Store<typeof transactions>;
