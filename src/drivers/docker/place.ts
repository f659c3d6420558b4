/**
 * Where a Docker Engine may listen on this machine.
 *
 * Invariants: the system's engine comes first; one that is installed later is found where the
 * system's would be.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';

export const system_socket = '/var/run/docker.sock';

/** The system's engine first, then one of this user's own (rootless, Docker Desktop, Colima). */
export function socketPaths({ home, uid }: { home: string; uid: number }): string[] {
  return [
    system_socket,
    `/run/user/${uid}/docker.sock`,
    join(home, '.docker/run/docker.sock'),
    join(home, '.colima/default/docker.sock'),
  ];
}

/** The socket of the engine to use; the system's, where none is there yet. */
export function engineSocket(place: { home: string; uid: number }): string {
  return socketPaths(place).find((path) => existsSync(path)) ?? system_socket;
}
