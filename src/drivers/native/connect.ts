/**
 * A stream to a TCP port inside a run, whatever the run's network is.
 *
 * Invariants: only what a program of the run itself has open is reached. A run with the machine's
 * network reaches no port of the machine or of another run this way: who listens is asked of the
 * kernel before and after connecting. A run with a network of its own is entered by a helper that
 * opens the connection there, hands it over, and is gone.
 */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { execPath } from 'node:process';
import { fileURLToPath } from 'node:url';
import { socketFrom } from '../../lib/exec.ts';
import { portUnreachable } from './errors.ts';
import { type Inside, programOf } from './exec.ts';
import { groupPids } from './group.ts';
import { startTicks } from './process.ts';

/** Where a port is open, as /proc/net tells it. */
export type Listener = { address: string; inode: string };

const helper = fileURLToPath(new URL('./connect-helper.ts', import.meta.url));
const helper_ms = 8000;
const helper_env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' };
/** Tried in this order, as programs try localhost. */
const loopback = ['127.0.0.1', '::1'] as const;

export async function connectInside(inside: Inside, port: number): Promise<Socket> {
  const { pid, ticks, group } = programOf(inside);
  const name = String(port);
  if (hasOwnNetwork(pid)) return connectThrough({ pid, ticks }, port);
  for (const address of loopback) {
    if (!isOpenedBy(groupPids(group), address, port)) continue;
    const socket = await connectTo(address, port);
    if (isOpenedBy(groupPids(group), address, port)) return socket;
    socket.destroy();
  }
  throw portUnreachable(name, 'no program of the workload has it open');
}

function hasOwnNetwork(pid: number): boolean {
  return readlinkSync(`/proc/${pid}/ns/net`) !== readlinkSync('/proc/self/ns/net');
}

/** Where it is the same process afterwards, it was the one that was entered. */
async function connectThrough(
  { pid, ticks }: { pid: number; ticks: number },
  port: number,
): Promise<Socket> {
  const spaces = [`--user=/proc/${pid}/ns/user`, `--net=/proc/${pid}/ns/net`];
  const args = [...spaces, '--preserve-credentials', '--', execPath, helper, String(port)];
  const options = { env: helper_env, timeout_ms: helper_ms };
  const answer = await socketFrom('nsenter', args, options);
  if ('why' in answer) throw portUnreachable(String(port), answer.why);
  if (startTicks(pid) === ticks) return answer.socket;
  answer.socket.destroy();
  throw portUnreachable(String(port), 'it has ended');
}

/** Does everything that would answer at this address belong to the run? */
function isOpenedBy(pids: number[], address: string, port: number): boolean {
  const listeners = [
    ...readListeners('/proc/net/tcp', port, address === '127.0.0.1' ? v4_answers : []),
    ...readListeners('/proc/net/tcp6', port, v6_answers[address] ?? []),
  ];
  if (listeners.length === 0) return false;
  const own = socketsOf(pids);
  return listeners.every(({ inode }) => own.has(inode));
}

/** Which listening addresses answer a connection to 127.0.0.1, as /proc/net writes them. */
const v4_answers = ['0100007F', '00000000'];
const any_v6 = '0'.repeat(32);
const v6_answers: Readonly<Record<string, string[]>> = {
  // One that listens on :: answers both families; a mapped address answers its own.
  '127.0.0.1': [any_v6, '0000000000000000FFFF00000100007F'],
  '::1': [any_v6, '00000000000000000000000001000000'],
};

function readListeners(path: string, port: number, addresses: string[]): Listener[] {
  return parseListeners(readFileSync(path, 'utf8'), port).filter(({ address }) =>
    addresses.includes(address),
  );
}

/** The listening sockets at a port, of a table as /proc/net/tcp. */
export function parseListeners(table: string, port: number): Listener[] {
  return table.split('\n').flatMap((line) => {
    const [, local = '', , state, , , , , , inode = ''] = line.trim().split(/\s+/);
    const [address = '', digits = ''] = local.split(':');
    const is_listening = state === '0A' && Number.parseInt(digits, 16) === port;
    return is_listening ? [{ address, inode }] : [];
  });
}

function socketsOf(pids: number[]): Set<string> {
  const found = new Set<string>();
  for (const pid of pids) {
    for (const link of linksOf(`/proc/${pid}/fd`)) {
      const inode = /^socket:\[(\d+)\]$/.exec(link)?.[1];
      if (inode !== undefined) found.add(inode);
    }
  }
  return found;
}

/** Of a process that is ending meanwhile: what can still be read. */
function linksOf(folder: string): string[] {
  try {
    return readdirSync(folder).flatMap((name) => {
      try {
        return [readlinkSync(`${folder}/${name}`)];
      } catch {
        return [];
      }
    });
  } catch {
    return [];
  }
}

function connectTo(address: string, port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: address, port, allowHalfOpen: true });
    socket.once('error', (error) => reject(portUnreachable(String(port), error.message, error)));
    socket.once('connect', () => {
      socket.removeAllListeners('error');
      resolve(socket);
    });
  });
}
