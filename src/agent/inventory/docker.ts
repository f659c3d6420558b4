/**
 * Is there a Docker Engine that this user can reach?
 *
 * Invariants: only an answer over the engine's own socket counts as "there"; a client without an
 * engine, a socket nobody listens on and a socket of which we are locked out are told apart.
 */
import { askVersion } from '../../drivers/docker/engine.ts';
import { EngineDown } from '../../drivers/docker/engine-error.ts';
import { type EnginePlace, socketPaths } from '../../drivers/docker/place.ts';
import type { Finding } from '../../drivers/driver.ts';
import type { Clock } from '../../lib/clock.ts';
import { type Distribution, installCommand, packageNames, serviceCommand } from './distribution.ts';
import type { MachineReader } from './machine-reader.ts';

export type SocketAnswer =
  | { kind: 'version'; version: string; api_version: string }
  | { kind: 'absent' }
  | { kind: 'denied' }
  | { kind: 'refused' }
  | { kind: 'silent' }
  | { kind: 'garbled' };

export type DockerSnapshot = {
  here: Distribution;
  /** The client program's version; null where there is no client. */
  client: string | null;
  /** The socket that told most, and what it answered; null where no socket file exists. */
  socket: { path: string; answer: SocketAnswer } | null;
};

const answer_timeout_ms = 5_000;

export async function lookForDocker(
  reader: MachineReader,
  here: Distribution,
  place: { clock: Clock } & EnginePlace,
): Promise<Finding> {
  const client = await reader.run('docker', ['--version'], answer_timeout_ms);
  let best: DockerSnapshot['socket'] = null;
  for (const path of socketPaths(place)) {
    const answer = await askEngine(path, place.clock);
    if (answer.kind === 'absent') continue;
    if (best === null || answer.kind === 'version') best = { path, answer };
    if (answer.kind === 'version') break;
  }
  const version = /version ([\w.+-]+)/.exec(client.stdout)?.[1] ?? 'of unknown version';
  return judgeDocker({ here, client: client.code === 0 ? version : null, socket: best });
}

export function judgeDocker({ here, client, socket }: DockerSnapshot): Finding {
  const start = here.packages === 'brew' ? 'colima start' : serviceCommand(here, 'start', 'docker');
  const install = `${installCommand(here, packageNames.docker, 'Docker')}, then: ${start}`;
  if (socket === null) {
    if (client === null) {
      return missing('no Docker: neither a client nor an engine is installed', install);
    }
    return missing(
      `no Docker engine: the client ${client} is installed, but there is no engine's socket`,
      install,
    );
  }
  const { path, answer } = socket;
  switch (answer.kind) {
    case 'version':
      return {
        check: 'docker',
        status: 'ok',
        message: `Docker Engine ${answer.version} (API ${answer.api_version}) answers on ${path}`,
        fix: null,
      };
    case 'denied':
      return missing(
        `Docker is there, but this user may not open ${path}`,
        `${here.sudo}usermod -aG docker "$USER", then sign in again (it is as good as root)`,
      );
    case 'silent':
      return missing(
        `Docker's engine took ${path} and did not answer within ${answer_timeout_ms / 1000} s`,
        serviceCommand(here, 'restart', 'docker'),
      );
    case 'garbled':
      return missing(`what answers on ${path} is no Docker Engine`, `ls -l ${path}`);
    case 'absent':
    case 'refused':
      return missing(`Docker's engine is not running: nobody listens on ${path}`, start);
  }
}

/** Asks the engine for its version over its socket. Never rejects. */
export async function askEngine(path: string, clock: Clock): Promise<SocketAnswer> {
  try {
    const { engine, newest_api } = await askVersion(path, clock, answer_timeout_ms);
    return { kind: 'version', version: engine, api_version: newest_api };
  } catch (error) {
    const kind = error instanceof EngineDown ? error.kind : 'broken';
    return { kind: kind === 'broken' || kind === 'api' ? 'silent' : kind };
  }
}

function missing(message: string, fix: string): Finding {
  return { check: 'docker', status: 'missing', message, fix };
}
