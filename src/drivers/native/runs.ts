/**
 * The runs of one install: their folders below the data folder's runs folder.
 *
 * Invariants: only folders whose readable label names this install are looked at or removed; a
 * folder is moved away before it is emptied, so that a half-removed one is never taken for a run.
 */
import { readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type RunKey, runName } from '../../core/run.ts';
import { describeError, type Log } from '../../lib/log.ts';
import type { Random } from '../../lib/random.ts';
import { detectCaps, readCapsSnapshot } from './cgroup.ts';
import { sweepGroups } from './group.ts';
import { type Judgement, judge } from './judge.ts';
import { listRunFolders, type RunFolder, type RunLabel, readLabel, runFolder } from './label.ts';
import { systemd_run } from './launch.ts';

export type Runs = {
  at(run: RunKey): RunFolder;
  list(): { at: RunFolder; label: RunLabel }[];
  /** The label of a run of this install; null where there is none, or none of ours. */
  label(at: RunFolder): RunLabel | null;
  look(run: RunKey): { at: RunFolder; label: RunLabel; seen: Judgement } | null;
  remove(at: RunFolder): void;
  /** Clears what is left of removed runs; the first time also groups without a run. */
  sweep(): void;
};

export function createRuns(options: {
  folder: string;
  install_id: string;
  boot_id: string;
  random: Random;
  log: Log;
}): Runs {
  const { folder, install_id, boot_id, random, log } = options;
  const gone_prefix = `.gone-${install_id}-`;
  const complained = new Set<string>();
  let is_swept = false;

  /** What cannot be cleared now is, at the next sweep: a keeper that came too late may write there. */
  function clear(gone: string): void {
    try {
      rmSync(gone, { recursive: true, force: true });
    } catch (error) {
      log.info({ folder: gone, error: describeError(error) }, 'a removed run is not cleared yet');
    }
  }

  const runs: Runs = {
    at: (run) => runFolder(folder, runName(run)),
    list: () =>
      listRunFolders(folder).flatMap((at) => {
        const label = runs.label(at);
        return label === null ? [] : [{ at, label }];
      }),
    label(at) {
      const label = readLabel(at);
      if (label === 'absent') return null;
      if (label !== 'unreadable') return label.install_id === install_id ? label : null;
      if (!complained.has(at.name)) {
        complained.add(at.name);
        log.warn({ folder: at.path }, 'a run was skipped: its run.json cannot be understood');
      }
      return null;
    },
    look(run) {
      const at = runs.at(run);
      const label = runs.label(at);
      return label === null ? null : { at, label, seen: judge(at, label, boot_id) };
    },
    remove(at) {
      const suffix = Buffer.from(random.bytes(8)).toString('hex');
      const gone = join(folder, `${gone_prefix}${suffix}`);
      renameSync(at.path, gone);
      clear(gone);
    },
    sweep() {
      for (const name of readdirSync(folder)) {
        if (name.startsWith(gone_prefix)) clear(join(folder, name));
      }
      if (is_swept) return;
      is_swept = true;
      const caps = detectCaps(readCapsSnapshot(systemd_run));
      if (caps.way !== 'folders') return;
      const known = new Set(listRunFolders(folder).map((at) => at.name));
      sweepGroups(caps.base, install_id, known);
    },
  };
  return runs;
}
