/**
 * The policy that holds now: read anew each time it is asked for, because its owner edits a file
 * and expects it to count.
 *
 * Invariants: a file that went bad leaves the last good one in force; one that never was good
 * leaves guests out; no file is the default. Reads a small plain file and nothing else: what stands
 * there instead (a pipe, a folder) is a problem that is told.
 */
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { isErrno } from '../lib/files.ts';
import { describeError } from '../lib/log.ts';
import {
  default_policy,
  locked_policy,
  type Policy,
  policy_limit_bytes,
  readPolicy,
} from './policy.ts';

export type CurrentPolicy = {
  policy: Policy;
  /** The file that counts; null where there is none. */
  path: string | null;
  /** Why the file as it is now does not count, with its line. */
  problem: string | null;
};

export type PolicySource = { current(): CurrentPolicy };

export const system_policy_path = '/etc/einsora/policy.json';

/** Where it may stand; the first one that is there counts. */
export function policyPaths(data_dir: string): string[] {
  return [join(data_dir, 'agent', 'policy.json'), system_policy_path];
}

export function openPolicy(paths: readonly string[]): PolicySource {
  let good: Policy | null = null;
  return {
    current() {
      for (const path of paths) {
        const found = readFile(path);
        if (found === null) continue;
        if ('problem' in found) return { policy: good ?? locked_policy, path, ...found };
        const reading = readPolicy(found.text);
        if (!reading.ok) {
          return { policy: good ?? locked_policy, path, problem: problemOf(reading) };
        }
        good = reading.policy;
        return { policy: good, path, problem: null };
      }
      good = null;
      return { policy: default_policy, path: null, problem: null };
    },
  };
}

/** "line 3: there is no setting gests". */
export function problemOf({ line, problem }: { line: number | null; problem: string }): string {
  return line === null ? problem : `line ${line}: ${problem}`;
}

function readFile(path: string): { text: string } | { problem: string } | null {
  try {
    const stats = statSync(path, { throwIfNoEntry: false });
    if (stats === undefined) return null;
    if (!stats.isFile()) return { problem: 'it is no plain file' };
    if (stats.size > policy_limit_bytes) return { problem: 'it is over 64 KiB' };
    return { text: readFileSync(path, 'utf8') };
  } catch (error) {
    if (isErrno(error, 'ENOENT') || isErrno(error, 'ENOTDIR')) return null;
    return { problem: `it cannot be read: ${describeError(error)}` };
  }
}
