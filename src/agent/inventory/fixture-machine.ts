/**
 * A machine made of fixtures, for the tests of probes: files by path, commands by name.
 *
 * Invariants: what a test did not name is not there, as on a bare machine.
 */
import type { ExecResult } from '../../lib/exec.ts';
import type { Distribution } from './distribution.ts';
import type { MachineReader, Opened } from './machine-reader.ts';

export type FixtureMachine = {
  files?: Record<string, string>;
  links?: Record<string, string>;
  devices?: Record<string, Opened>;
  /** By name; a function where what is said depends on the arguments. */
  commands?: Record<string, Said | ((args: string[]) => Said)>;
};
type Said = Partial<ExecResult>;

export const debian: Distribution = {
  os: 'Debian GNU/Linux',
  version: '12 (bookworm)',
  packages: 'apt',
  sudo: 'sudo ',
  systemd: true,
};

export function fixtureReader(machine: FixtureMachine): MachineReader {
  const files = machine.files ?? {};
  const paths = [...Object.keys(files), ...Object.keys(machine.links ?? {})];
  return {
    read: (path) => files[path] ?? null,
    list: (folder) => [
      ...new Set(
        paths
          .filter((path) => path.startsWith(`${folder}/`))
          .map((path) => path.slice(folder.length + 1).split('/')[0] ?? ''),
      ),
    ],
    link: (path) => machine.links?.[path] ?? null,
    open: (path) => machine.devices?.[path] ?? 'missing',
    run: async (command, args) => {
      const said = machine.commands?.[command] ?? { outcome: 'failed' };
      return result(typeof said === 'function' ? said(args) : said);
    },
  };
}

export function result(partial: Partial<ExecResult>): ExecResult {
  return { outcome: 'exited', code: 0, signal: null, stdout: '', stderr: '', ...partial };
}
