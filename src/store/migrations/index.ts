/**
 * The migrations of this version, oldest first. One that was released is never changed again.
 */
import type { Migration } from '../migrate.ts';
import { solo } from './0001-solo.ts';

export const migrations: readonly Migration[] = [solo];
