/**
 * Our SSH server: one connection for each stream that is handed to it, into one run of a workload.
 *
 * Invariants: a person has a bounded number of connections; a connection reaches its own run and
 * nothing else; it ends within a second of what ended its right to be there, and says why.
 */
import type { Duplex } from 'node:stream';
import { EinsoraError } from '../../contract/errors.ts';
import { limits } from '../../contract/limits.ts';
import type { AuthorizedKey } from '../../core/ssh-key.ts';
import type { Clock } from '../../lib/clock.ts';
import { withDeadline } from '../../lib/clock.ts';
import { describeError, type Log } from '../../lib/log.ts';
import type { ExecAsk, ExecSession, RunFiles } from '../../lib/session.ts';
import { SshConnection } from './connection.ts';
import { join } from './forward.ts';
import type { HostKey } from './host-key.ts';
import { SshSession } from './session.ts';

/** One run, as SSH reaches it. */
export type Inside = {
  exec(ask: ExecAsk, signal: AbortSignal): Promise<ExecSession>;
  files(): Promise<RunFiles>;
  connect(port: number): Promise<Duplex>;
};

export type Visit = {
  socket: Duplex;
  user_id: string;
  inside: Inside;
  /** Public keys of which one must sign, or null. */
  keys: AuthorizedKey[] | null;
  log: Log;
  /** What is sent before SSH begins; empty for nothing. */
  greeting: string;
  /** Called once somebody has signed in. */
  signedIn(): void;
  /** Called again and again while anything is open. */
  used(): void;
  /** What to tell a person of something that failed. */
  explain(error: unknown): string;
};

export type SshServer = {
  /** Serves a visit to its end. Throws where there are too many; then nothing was written. */
  serve(visit: Visit): Served;
  /** Ends all of them; resolves when they had their moment to be told. */
  close(): Promise<void>;
};

export type Served = { cut(why: string): void; closed: Promise<void> };

export function createSshServer(deps: { host_key: HostKey; clock: Clock }): SshServer {
  const { host_key, clock } = deps;
  const open = new Set<SshConnection>();
  const counts = new Map<string, number>();

  function count(user_id: string, by: number): number {
    const now = (counts.get(user_id) ?? 0) + by;
    if (now === 0) counts.delete(user_id);
    else counts.set(user_id, now);
    return now;
  }

  return {
    serve(visit) {
      const { user_id, socket } = visit;
      const limit = limits.ssh_connections_per_user;
      if ((counts.get(user_id) ?? 0) >= limit)
        throw new EinsoraError('too_many_streams', { limit });
      if (visit.greeting !== '') socket.write(visit.greeting);
      const connection = connect(visit, host_key, clock);
      count(user_id, 1);
      open.add(connection);
      void connection.closed.then(() => {
        count(user_id, -1);
        open.delete(connection);
      });
      connection.start().catch((error) => {
        visit.log.error({ error: describeError(error) }, 'SSH cannot encrypt');
        socket.destroy();
      });
      return { cut: (why) => connection.cut(why), closed: connection.closed };
    },
    async close() {
      const all = [...open];
      for (const connection of all) connection.cut('the control plane is stopping');
      const ended = Promise.all(all.map((one) => one.closed));
      await Promise.race([ended, clock.sleep(limits.ssh_last_words_ms)]);
    },
  };
}

function connect(visit: Visit, host_key: HostKey, clock: Clock): SshConnection {
  const { socket, keys, inside, signedIn, used, explain } = visit;
  return new SshConnection({
    ...{ socket, host_key, keys, clock, signedIn, used, forward: join },
    openSession: (channel) =>
      new SshSession(channel, { exec: inside.exec, files: inside.files, explain }),
    async openPort(host, port) {
      if (!/^(?:localhost|127\.0\.0\.1|::1)$/i.test(host)) {
        throw new Error(`only localhost of the workload can be reached, not ${host.slice(0, 100)}`);
      }
      if (port < 1 || port > 65535) throw new Error('that is no port');
      const words = `port ${port} did not answer`;
      return withDeadline(clock, limits.ssh_connect_ms, words, inside.connect(port)).catch(
        (error) => {
          const is_late = error instanceof Error && error.message === words;
          throw new Error(is_late ? words : explain(error));
        },
      );
    },
  });
}
