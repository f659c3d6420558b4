/**
 * The registry of named transactions: everything that writes the store, by name. The writing worker
 * imports this file, so nothing here may reach beyond the store and core.
 */
import {
  addSignInLink,
  closeSession,
  openSession,
  replaceOwnerToken,
  setUp,
  touchSession,
  touchToken,
} from './accounts.ts';
import { forgetIdempotencyKeys } from './idempotency.ts';
import { createKey, revokeKey } from './keys.ts';
import { addMachine, greetMachine, updateInventory } from './machines.ts';
import { queueWorkloads } from './queue.ts';
import { applyReport, placeWorkload } from './runs.ts';
import { noteDeploymentKey, removeSecret, resealSecret, setSecret } from './secrets.ts';
import type { Store, TransactionTable } from './sql.ts';
import { deleteWorkload, launchWorkload, startWorkload, stopWorkload } from './workloads.ts';

export const transactions = {
  addMachine,
  addSignInLink,
  applyReport,
  closeSession,
  createKey,
  deleteWorkload,
  forgetIdempotencyKeys,
  greetMachine,
  launchWorkload,
  noteDeploymentKey,
  openSession,
  placeWorkload,
  queueWorkloads,
  removeSecret,
  replaceOwnerToken,
  resealSecret,
  revokeKey,
  setSecret,
  setUp,
  startWorkload,
  stopWorkload,
  touchSession,
  touchToken,
  updateInventory,
} satisfies TransactionTable;

export type EinsoraStore = Store<typeof transactions>;
