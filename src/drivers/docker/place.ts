/**
 * Where a Docker Engine may listen on this machine.
 *
 * Invariants: a place that is named is the only one; else the system's engine comes first, and one
 * that is installed later is found where the system's would be.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';

export const system_socket = '/var/run/docker.sock';

/** `host` is what DOCKER_HOST says, as for the docker command; null where it says nothing. */
export type EnginePlace = { home: string; uid: number; host?: string | null | undefined };

/**
 * Where DOCKER_HOST says, and nowhere else; without it the system's engine first, then one of this
 * user's own (rootless, Docker Desktop, Colima).
 */
export function socketPaths({ home, uid, host }: EnginePlace): string[] {
  // An engine on another machine is not this machine's: its address is no socket, and is told so.
  if (host != null && host !== '') return [host.replace(/^unix:\/\//, '')];
  return [
    system_socket,
    `/run/user/${uid}/docker.sock`,
    join(home, '.docker/run/docker.sock'),
    join(home, '.colima/default/docker.sock'),
  ];
}

/** The socket of the engine to use; the system's, where none is there yet. */
export function engineSocket(place: EnginePlace): string {
  const paths = socketPaths(place);
  return paths.find((path) => existsSync(path)) ?? paths[0] ?? system_socket;
}
