/**
 * Which way memory and CPU of a run can be capped here: decided from a snapshot, without touching
 * anything.
 *
 * Invariants: `detectCaps` is pure; it answers `none` with a reason rather than offer a cap on
 * memory that would not hold.
 */
import { accessSync, constants, existsSync } from 'node:fs';
import { readIfThere } from '../../lib/files.ts';

/** The folders of one group's controllers; in version 2 all are the same folder. */
export type Group = {
  version: 1 | 2;
  memory: string;
  cpu: string | null;
  accounting: string | null;
  pids: string | null;
};

export type CapsWay =
  /** Folders that this user may make below these. */
  | { way: 'folders'; base: Group }
  /** A scope of the user's own systemd, on a version 2 tree mounted here. */
  | { way: 'systemd'; mount: string; uid: number }
  | { way: 'none'; why: string };

export type CapsSnapshot = {
  /** /proc/self/mountinfo */
  mountinfo: string;
  isWritable(folder: string): boolean;
  /** cgroup.controllers of a version 2 mount, split. */
  controllersOf(mount: string): string[];
  uid: number;
  /** Whether systemd-run and the user's own systemd are there. */
  has_user_systemd: boolean;
};

export function detectCaps(snapshot: CapsSnapshot): CapsWay {
  const mounts = parseMounts(snapshot.mountinfo);
  const one = (controller: string) =>
    mounts.find((mount) => mount.type === 'cgroup' && mount.options.includes(controller))?.folder;
  const memory = one('memory');
  if (memory !== undefined) {
    if (!snapshot.isWritable(memory)) return { way: 'none', why: `${memory} cannot be written` };
    const usable = (controller: string) => {
      const folder = one(controller);
      return folder !== undefined && snapshot.isWritable(folder) ? folder : null;
    };
    const base: Group = {
      version: 1,
      memory,
      cpu: usable('cpu'),
      accounting: usable('cpuacct'),
      pids: usable('pids'),
    };
    return { way: 'folders', base };
  }
  const two = mounts.find((mount) => mount.type === 'cgroup2')?.folder;
  if (two === undefined) return { way: 'none', why: 'no control groups are mounted' };
  const controllers = snapshot.controllersOf(two);
  if (!controllers.includes('memory')) {
    return { way: 'none', why: `${two} has no memory controller` };
  }
  if (snapshot.isWritable(two)) {
    const offered = (controller: string) => (controllers.includes(controller) ? two : null);
    const base: Group = {
      version: 2,
      memory: two,
      cpu: offered('cpu'),
      accounting: two,
      pids: offered('pids'),
    };
    return { way: 'folders', base };
  }
  if (snapshot.has_user_systemd) return { way: 'systemd', mount: two, uid: snapshot.uid };
  return { way: 'none', why: `${two} cannot be written and there is no systemd user session` };
}

/** The snapshot of this machine. `systemd_run` is where that program would be. */
export function readCapsSnapshot(systemd_run: string): CapsSnapshot {
  const uid = process.getuid?.() ?? 0;
  return {
    mountinfo: readIfThere('/proc/self/mountinfo') ?? '',
    isWritable(folder) {
      try {
        accessSync(folder, constants.W_OK);
        return true;
      } catch {
        return false;
      }
    },
    controllersOf: (mount) =>
      (readIfThere(`${mount}/cgroup.controllers`) ?? '').trim().split(' ').filter(Boolean),
    uid,
    has_user_systemd: existsSync(systemd_run) && existsSync(`/run/user/${uid}/systemd/private`),
  };
}

/** What a way of capping does, in words for a finding. */
export function describeCaps(way: CapsWay): string {
  if (way.way === 'none') return `memory cannot be capped: ${way.why}`;
  if (way.way === 'systemd')
    return 'memory and CPU are capped by scopes of the systemd user session';
  const missing = way.base.cpu === null ? ', CPU not' : ' and CPU';
  return `memory${missing} capped by control groups, version ${way.base.version}`;
}

type Mount = { folder: string; type: string; options: string[] };

function parseMounts(mountinfo: string): Mount[] {
  return mountinfo.split('\n').flatMap((line) => {
    const [before, after] = line.split(' - ');
    const folder = before?.split(' ')[4];
    const [type, , options] = after?.split(' ') ?? [];
    if (folder === undefined || type === undefined) return [];
    return [{ folder, type, options: options?.split(',') ?? [] }];
  });
}
