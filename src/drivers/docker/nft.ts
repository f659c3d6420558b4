/**
 * The program `nft`: rulesets in, listings and counters out.
 *
 * Invariants: rules go in over stdin and as one transaction; a failure is an error whose message
 * says what is missing and what helps; nothing is asked of a shell.
 */
import { type ExecResult, exec } from '../../lib/exec.ts';
import { findProgram } from '../../lib/which.ts';
import { oneLine } from './engine-error.ts';

export type Nft = {
  apply(text: string): Promise<void>;
  /** The table without what counts up in it; null where it is not there. */
  listing(table: string): Promise<string | null>;
  /** Packets that a counter of the table has seen. */
  packets(table: string, counter: string): Promise<number>;
};

/** Why rules cannot be set, and the command that mends it. */
export class NftError extends Error {
  readonly fix: string | null;
  constructor(message: string, fix: string | null) {
    super(message);
    this.fix = fix;
  }
}

export const system_path = '/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin';
const patience_ms = 10_000;

export function createNft(path = system_path): Nft {
  const nft = (args: string[], input?: string) =>
    exec('nft', args, {
      ...{ env: { PATH: path }, timeout_ms: patience_ms },
      ...(input === undefined ? {} : { input }),
    });
  return {
    async apply(text) {
      const done = await nft(['-f', '-'], text);
      if (done.code !== 0) throw refusalOf(done);
    },
    async listing(table) {
      const done = await nft(['-s', 'list', 'table', 'inet', table]);
      if (done.code === 0) return done.stdout;
      if (/No such file or directory/.test(done.stderr)) return null;
      throw refusalOf(done);
    },
    async packets(table, counter) {
      const done = await nft(['list', 'counter', 'inet', table, counter]);
      const count = /packets (\d+)/.exec(done.stdout)?.[1];
      if (done.code !== 0 || count === undefined) throw refusalOf(done);
      return Number(count);
    },
  };
}

function refusalOf({ outcome, stderr }: ExecResult): NftError {
  if (outcome === 'failed') {
    return new NftError('the program nft is not installed', installCommand());
  }
  if (outcome !== 'exited') return new NftError('nft did not answer', null);
  if (/Operation not permitted|must be root/i.test(stderr)) {
    const fix = "run the machine's agent as root: sudo bin/einsora up";
    return new NftError('only root may set rules', fix);
  }
  return new NftError(`nft refused: ${oneLine(stderr.split('\n')[0] ?? '')}`, null);
}

const installers = [
  ['apt-get', 'apt-get install -y nftables'],
  ['dnf', 'dnf install -y nftables'],
  ['zypper', 'zypper install -y nftables'],
  ['pacman', 'pacman -S --noconfirm nftables'],
  ['apk', 'apk add nftables'],
] as const;

function installCommand(): string {
  const sudo = process.getuid?.() === 0 ? '' : 'sudo ';
  const found = installers.find(([program]) => findProgram(program, system_path) !== null);
  return found === undefined ? 'install nftables' : `${sudo}${found[1]}`;
}
