/**
 * Runs tools that may hang where no signal reaches them: inside the kernel, as those of a broken
 * GPU do.
 *
 * Invariants: an answer comes soon after the deadline, whether the tool could be ended or not;
 * while a tool could not be ended, it is not begun again, so that none pile up.
 */
import type { Clock } from '../../lib/clock.ts';
import type { ExecResult } from '../../lib/exec.ts';
import type { Exec } from './machine-reader.ts';

/** After its deadline, for the kill to be heard of. */
const grace_ms = 2_000;

const silent: ExecResult = { outcome: 'timeout', code: null, signal: null, stdout: '', stderr: '' };

export function createToolRunner(exec: Exec, clock: Clock): Exec {
  const stuck = new Map<string, number>();
  const count = (command: string, by: number) => stuck.set(command, (stuck.get(command) ?? 0) + by);
  return (command, args, options) => {
    if ((stuck.get(command) ?? 0) > 0) return Promise.resolve(silent);
    return new Promise((resolve, reject) => {
      let is_stuck = false;
      const cancel = clock.after(options.timeout_ms + grace_ms, () => {
        is_stuck = true;
        count(command, 1);
        resolve(silent);
      });
      const end = () => {
        cancel();
        if (is_stuck) count(command, -1);
      };
      exec(command, args, options).then(
        (result) => {
          end();
          resolve(result);
        },
        (error) => {
          end();
          reject(error);
        },
      );
    });
  };
}
