/**
 * A stream to a TCP port inside a container, also one that listens on the container's own loopback.
 *
 * Invariants: the container's network is entered by a helper that opens the connection there, hands
 * it over, and is gone; a pid that is no process of this container is never entered. Where the
 * engine's processes are not seen from here, nothing can be entered, and that is said.
 */

import { execPath } from 'node:process';
import type { Duplex } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { socketFrom } from '../../lib/exec.ts';
import type { Container } from './container.ts';
import type { Engine } from './engine.ts';
import { driverError } from './engine-error.ts';
import { isOfContainer, seesProcesses } from './processes.ts';

const helper = fileURLToPath(new URL('../native/connect-helper.ts', import.meta.url));
const helper_ms = 8000;
const helper_env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' };

export async function connectInContainer(
  engine: Engine,
  { id, pid }: Container,
  port: number,
): Promise<Duplex> {
  const refuse = (why: string) => driverError('port_unreachable', { port: String(port), why });
  if (!seesProcesses(await engine.version())) {
    throw refuse('the engine runs its containers where this program cannot enter them');
  }
  if (!isOfContainer(pid, id)) throw refuse('it has ended');
  const args = [`--net=/proc/${pid}/ns/net`, '--', execPath, helper, String(port)];
  const answer = await socketFrom('nsenter', args, { env: helper_env, timeout_ms: helper_ms });
  if ('why' in answer) throw refuse(answer.why);
  // Where it is the same process afterwards, it was the one that was entered.
  if (isOfContainer(pid, id)) return answer.socket;
  answer.socket.destroy();
  throw refuse('it has ended');
}
