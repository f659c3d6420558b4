/**
 * The docker driver of this machine, with what stands around it: fence, keeper, and the relay by
 * which fenced runs call the gateway.
 *
 * Invariants: what goes on after `stop` goes on behind its fence; where nothing goes on nothing is
 * left.
 */
import { homedir } from 'node:os';
import { join } from 'node:path';
import { createDockerDriver } from '../drivers/docker/docker.ts';
import { createFence } from '../drivers/docker/fence.ts';
import { startFenceKeeper } from '../drivers/docker/fence-keeper.ts';
import { engineSocket } from '../drivers/docker/place.ts';
import type { Driver } from '../drivers/driver.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { Random } from '../lib/random.ts';
import type { GatewayDoor } from './gateway-door.ts';
import { createGatewayRelay } from './gateway-relay.ts';

export type LocalDockerOptions = {
  data_dir: string;
  machine_id: string;
  gateway: GatewayDoor;
  /** The owner lets containers into the local networks. */
  allow_lan: boolean;
  /** What DOCKER_HOST says. */
  docker_host?: string | null | undefined;
  clock: Clock;
  random: Random;
  log: Log;
};

export function openLocalDocker(options: LocalDockerOptions): {
  driver: Driver;
  stop(): Promise<void>;
} {
  const { data_dir, machine_id: install_id, gateway, allow_lan, clock, random, log } = options;
  const socket_path = engineSocket({
    ...{ home: homedir(), uid: process.getuid?.() ?? 0, host: options.docker_host },
  });
  const folder = join(data_dir, 'containers');
  const port_file = join(data_dir, 'agent', 'gateway-port');
  const relay = createGatewayRelay({ gateway, port_file, log });
  const fence = createFence({ install_id, allow_lan, openDoor: relay.openDoor, log });
  const keeper = startFenceKeeper({ socket_path, install_id, fence, clock, log });
  return {
    driver: createDockerDriver({ folder, install_id, socket_path, fence, clock, random, log }),
    async stop() {
      await keeper.stop();
      await relay.close();
    },
  };
}
