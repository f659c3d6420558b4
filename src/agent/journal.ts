/**
 * The agent's journal: what it was asked to run here, written before it acts, one small file a run,
 * and which store it obeys.
 *
 * Invariants: an entry is on disk before anything of the run starts and gone only after nothing of
 * it is left; a file that cannot be read is left alone and said, never deleted.
 */
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { detailsSchema } from '../contract/details.ts';
import { exitSchema } from '../contract/run-exit.ts';
import type { AgentIdentity } from '../contract/sync.ts';
import { parseRunName, type RunKey, runName } from '../core/run.ts';
import { makePrivateFolder, readIfThere, writeDurably } from '../lib/files.ts';
import { describeError, type Log } from '../lib/log.ts';

const sizes = { cpu_millis: z.number(), memory_bytes: z.number() };
const place = { name: z.string(), accelerator: z.string().nullable().default(null) };
const endpointSchema = z.object({
  ...{ kind: z.literal('endpoint'), ...place, ...sizes },
  image_id: z.string().nullable().default(null),
  model: z.string(),
  context_length: z.number().nullable(),
  parallel: z.number().nullable(),
});
const imageParts = {
  ...{ ...place, ...sizes, image_id: z.string(), disk_bytes: z.number() },
  command: z.array(z.string()),
  /** Empty: variables are not written down. */
  env: z.record(z.string(), z.union([z.string(), z.object({ secret: z.string() })])),
};
const specSchema = z.discriminatedUnion('kind', [
  endpointSchema,
  z.object({ kind: z.literal('notebook'), ...imageParts }),
  z.object({ kind: z.literal('instance'), ...imageParts }),
]);

const entrySchema = z.object({
  driver: z.string(),
  intent: z.enum(['run', 'park', 'remove']),
  boot_id: z.string(),
  /** Its driver has started it: where the driver knows nothing of it any more, it is lost. */
  started: z.boolean().default(false),
  spec: specSchema.nullable(),
  end: z
    .object({
      exit: exitSchema.nullable(),
      reason: z.string().nullable(),
      details: detailsSchema,
      log_tail: z.string().nullable(),
    })
    .nullable(),
});
export type JournalEntry = z.infer<typeof entrySchema>;

const identitySchema = z.object({
  store_uuid: z.string(),
  store_epoch: z.number(),
  agent_epoch: z.number(),
});

export type Journal = {
  /** Which store this machine obeys; null before it met one. */
  identity(): AgentIdentity | null;
  writeIdentity(identity: AgentIdentity): void;
  list(): { run: RunKey; entry: JournalEntry }[];
  read(run: RunKey): JournalEntry | null;
  write(run: RunKey, entry: JournalEntry): void;
  remove(run: RunKey): void;
};

export function openJournal(folder: string, log: Log): Journal {
  makePrivateFolder(folder);
  const pathOf = (run: RunKey) => join(folder, `${runName(run)}.json`);
  const read = (run: RunKey): JournalEntry | null => {
    const text = readIfThere(pathOf(run));
    if (text === null) return null;
    try {
      return entrySchema.parse(JSON.parse(text));
    } catch (error) {
      log.warn({ run: runName(run), error: describeError(error) }, 'a journal entry is unreadable');
      return null;
    }
  };
  const identity_path = join(folder, 'identity');
  return {
    identity() {
      const text = readIfThere(identity_path);
      return text === null ? null : identitySchema.parse(JSON.parse(text));
    },
    writeIdentity: (identity) => writeDurably(identity_path, JSON.stringify(identity)),
    list: () =>
      readdirSync(folder).flatMap((file) => {
        const run = file.endsWith('.json') ? parseRunName(file.slice(0, -5)) : null;
        const entry = run === null ? null : read(run);
        return run === null || entry === null ? [] : [{ run, entry }];
      }),
    read,
    write: (run, entry) => writeDurably(pathOf(run), JSON.stringify(entry)),
    remove: (run) => rmSync(pathOf(run), { force: true }),
  };
}
