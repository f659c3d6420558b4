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
import { fenceMachine, greetMachine } from './agents.ts';
import { changeAliases } from './aliases.ts';
import { dropCatalogEntry, setCatalogEntry } from './catalog.ts';
import { shareEndpoint } from './endpoint-guests.ts';
import { recordExec, recordFileChange } from './exec.ts';
import { setFallback } from './fallback.ts';
import { returnToAsked } from './fallback-return.ts';
import { forgetIdempotencyKeys } from './idempotency.ts';
import { noteIdleSoon, parkIdle, setIdlePolicy, wakeIdle } from './idle.ts';
import { createInvitation, redeemInvitation, revokeInvitation } from './invitations.ts';
import { createKey, limitKey, revokeKey } from './keys.ts';
import { startLedgerClock } from './ledger-clock.ts';
import { drainMachine, limitMachine, removeMachine, renameMachine } from './machine-changes.ts';
import { addMachine, updateInventory } from './machines.ts';
import { makeRoom } from './make-room.ts';
import { applyModelFiles, wishModelFile } from './model-files.ts';
import { createModelKey, revokeModelKey } from './model-keys.ts';
import { rehashPassword, resetPassword, setPassword } from './passwords.ts';
import { placeWorkload } from './place.ts';
import { placeReplica } from './place-replica.ts';
import { resumePreempted } from './preempt.ts';
import { deductSleep, proveRunning } from './proofs.ts';
import { queueWorkloads } from './queue.ts';
import { setQuota } from './quota-limits.ts';
import { advanceReclaim, hearMachineGuard, reclaimMachine, releaseMachine } from './reclaim.ts';
import { setMachineRegion } from './regions.ts';
import { queueReplicas } from './replica-queue.ts';
import { setRequestLimits } from './request-limits.ts';
import {
  closeRequestJournal,
  forgetRequests,
  openRequestJournal,
  recordRequests,
} from './requests.ts';
import { restoreStore } from './restore.ts';
import { forgetRunKeys, keepRunKey } from './run-keys.ts';
import { applyReport } from './run-reports.ts';
import { recordSamples, saveUses } from './samples.ts';
import { scaleEndpoint } from './scale.ts';
import {
  forgetSecrets,
  noteDeploymentKey,
  removeSecret,
  resealSecret,
  setSecret,
} from './secrets.ts';
import { revokeSession, revokeSessions, signInByPassword } from './sessions.ts';
import { giveMachine, shareMachine } from './sharing.ts';
import { addSimMachine } from './sim-machines.ts';
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
  addSimMachine,
  advanceReclaim,
  applyModelFiles,
  applyReport,
  changeAliases,
  closeRequestJournal,
  closeSession,
  createInvitation,
  createKey,
  createModelKey,
  createTenant,
  createToken,
  deductSleep,
  deleteWorkload,
  disableUser,
  dropCatalogEntry,
  drainMachine,
  enableUser,
  eraseActivity,
  fenceMachine,
  forgetIdempotencyKeys,
  forgetRequests,
  forgetRunKeys,
  forgetSecrets,
  giveMachine,
  greetMachine,
  hearMachineGuard,
  keepRunKey,
  launchWorkload,
  limitKey,
  limitMachine,
  logIn,
  makeRoom,
  noteDeploymentKey,
  noteIdleSoon,
  noteVisit,
  openRequestJournal,
  openSession,
  parkIdle,
  placeReplica,
  placeWorkload,
  proveRunning,
  queueReplicas,
  queueWorkloads,
  redeemAccessTicket,
  redeemInvitation,
  rehashPassword,
  reclaimMachine,
  recordExec,
  recordFileChange,
  recordNotes,
  recordRequests,
  recordSamples,
  releaseMachine,
  removeSecret,
  removeMachine,
  renameMachine,
  renameTenant,
  renewAccessSession,
  replaceOwnerToken,
  resealSecret,
  resetPassword,
  restoreStore,
  returnToAsked,
  resumePreempted,
  revokeInvitation,
  revokeKey,
  revokeModelKey,
  revokeSession,
  revokeSessions,
  revokeToken,
  saveUses,
  scaleEndpoint,
  setFallback,
  setCatalogEntry,
  setIdlePolicy,
  setMachineRegion,
  setPassword,
  setQuota,
  setRequestLimits,
  sealActivity,
  setSecret,
  setTenantDisabled,
  setUp,
  setUserRole,
  shareEndpoint,
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
