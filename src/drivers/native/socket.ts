/**
 * A connection to a run's Unix socket.
 *
 * Invariants: the sandbox can write its socket folder, so a name in it is opened without following
 * links and must be a socket: a run can never make the agent connect to a socket of the host. Paths
 * may be longer than a socket address allows.
 */
import { closeSync, constants, fstatSync, openSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { isErrno } from '../../lib/files.ts';
import { portUnreachable } from './errors.ts';

/** Linux's O_PATH, which Node does not name: a handle on the name itself, whatever it is. */
const open_path_only = 0o10000000;

export async function connectToPort(folder: string, port_name: string): Promise<Socket> {
  const handle = openSocketFile(folder, port_name);
  try {
    return await new Promise((resolve, reject) => {
      const socket = connect(`/proc/self/fd/${handle}`);
      socket.once('error', (error) => reject(portUnreachable(port_name, error.message, error)));
      socket.once('connect', () => {
        socket.removeAllListeners('error');
        resolve(socket);
      });
    });
  } finally {
    closeSync(handle);
  }
}

function openSocketFile(folder: string, port_name: string): number {
  let handle: number;
  try {
    const path = join(folder, `${port_name}.sock`);
    handle = openSync(path, open_path_only | constants.O_NOFOLLOW);
  } catch (error) {
    if (isErrno(error, 'ENOENT')) throw portUnreachable(port_name, 'it is not open yet', error);
    throw error;
  }
  if (fstatSync(handle).isSocket()) return handle;
  closeSync(handle);
  throw portUnreachable(port_name, 'what stands in its place is no socket');
}

export function isPortName(name: string): boolean {
  return /^[a-z0-9][a-z0-9-]{0,30}$/.test(name);
}
