/**
 * The GPUs of this machine, as its agent watches them: with Docker's engine where there is one, and
 * a memory in the data folder.
 */
import { homedir } from 'node:os';
import { join } from 'node:path';
import { createEngine } from '../drivers/docker/engine.ts';
import { engineSocket } from '../drivers/docker/place.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { openGpuMemory } from './inventory/gpu-memory.ts';
import { createGpuWatch, type GpuWatch } from './inventory/gpu-watch.ts';

export function openLocalGpus(options: {
  data_dir: string;
  docker_host?: string | null | undefined;
  clock: Clock;
  log: Log;
}): GpuWatch {
  const { data_dir, clock, log } = options;
  const socket_path = engineSocket({
    ...{ home: homedir(), uid: process.getuid?.() ?? 0, host: options.docker_host },
  });
  const memory = openGpuMemory(join(data_dir, 'agent', 'gpus.json'), log);
  return createGpuWatch({ engine: createEngine(socket_path, clock), memory, clock });
}
