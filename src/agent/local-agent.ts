/**
 * Solo's own machine: an agent in this process, through the same sync handler that a remote one
 * calls.
 *
 * Invariants: nothing here knows of the store; the sim driver exists in dev mode only; what the
 * agent keeps on disk lies below the data folder and is adopted at the next start.
 */
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { sentenceOf } from '../core/reasons.ts';
import type { RunKey } from '../core/run.ts';
import { createBwrapFinder } from '../drivers/bwrap.ts';
import type { Driver, DriverProbe } from '../drivers/driver.ts';
import { createNativeDriver } from '../drivers/native/native.ts';
import type { BwrapFinder } from '../drivers/native/sandbox.ts';
import { missingDrivers, suits } from '../drivers/registry.ts';
import type { Clock } from '../lib/clock.ts';
import { exec } from '../lib/exec.ts';
import { describeError, type Log } from '../lib/log.ts';
import type { Random } from '../lib/random.ts';
import type { Sources } from '../models/source-plan.ts';
import { createJupyter } from '../runtimes/jupyter.ts';
import { createLlamaCpp } from '../runtimes/llama-cpp.ts';
import { createAgent, type Transport } from './agent.ts';
import { createDoubts } from './doubts.ts';
import { createEndpointWork } from './endpoint-run.ts';
import { localGateway } from './gateway-door.ts';
import { lostAmong } from './gpu-loss.ts';
import { createGpuUse } from './gpu-use.ts';
import { createInstanceWork } from './instance-run.ts';
import { takeInventory } from './inventory/inventory.ts';
import { createMachineReader } from './inventory/machine-reader.ts';
import type { Offer } from './inventory/offer.ts';
import { createToolRunner } from './inventory/tool-runner.ts';
import { openJournal } from './journal.ts';
import { openLocalDocker } from './local-docker.ts';
import { openLocalGpus } from './local-gpus.ts';
import { openLocalGuard } from './local-guard.ts';
import { openLocalModels } from './local-models.ts';
import { createNotebookWork } from './notebook-run.ts';
import { patience } from './run-watch.ts';

export type LocalAgentOptions = {
  data_dir: string;
  cache_dir: string;
  machine_id: string;
  transport: Transport;
  offer: Offer;
  /** Where the control plane's gateway listens on this machine, once it does. */
  gateway_port: () => number;
  /** The owner lets containers into the local networks. */
  allow_lan: boolean;
  /** What DOCKER_HOST says. */
  docker_host?: string | null | undefined;
  /** For package clients. */
  env: Record<string, string>;
  /** Allows the sim driver in place of real ones. */
  dev: boolean;
  /** Where models may be fetched from. */
  sources: Sources;
  clock: Clock;
  random: Random;
  log: Log;
};

const bring_bwrap_ms = 60_000;

export function startLocalAgent(options: LocalAgentOptions) {
  const { data_dir, cache_dir, machine_id, transport, env, clock, random, log } = options;
  const platform = `${process.platform}-${process.arch}`;
  const tools = { tools_folder: join(cache_dir, 'tools'), platform, env, clock, random };
  const bringer = createBwrapFinder(tools);
  let problem = '';
  const bwrap = {
    ...bringer,
    async find() {
      const found = await bringer.find();
      return 'missing' in found ? { missing: `${found.missing}${problem}` } : found;
    },
  };
  const gateway = localGateway(options.gateway_port);
  const docker = openLocalDocker({ ...options, gateway });
  const here = openDrivers(options, bwrap, docker.driver);
  const journal = openJournal(join(data_dir, 'agent', 'journal'), log);

  const gpus = openLocalGpus(options);
  const runTool = createToolRunner(exec, clock);
  const guard = openLocalGuard({ data_dir, exec: runTool, drivers: here, clock });

  let lost: ReadonlyMap<string, string> = new Map();

  async function inventory(anew: boolean) {
    // It is small, and without it nothing runs: brought before the machine says what it can do.
    if (here.has('linux-native') && 'missing' in (await bringer.find())) {
      const brought = await bringer.install(() => {}, AbortSignal.timeout(bring_bwrap_ms));
      problem = brought.ok ? '' : `, and ${sentenceOf(brought.code, brought.details)}`;
      if (!brought.ok) log.warn({ code: brought.code, problem }, 'bubblewrap could not be brought');
    }
    const probes = await Promise.all([...here.values()].map(probeOf));
    const found = await takeInventory({
      probes: [...probes, ...missingDrivers(process.platform)],
      ...{ exec: runTool, clock, folder: data_dir },
      offer: guard.narrow(options.offer),
      ...{ host_name: hostname(), gpus, anew, docker_host: options.docker_host },
    });
    lost = lostAmong(found.gpus);
    return guard.seen(found);
  }

  const models = openLocalModels({ ...options, platform });
  const doubts = createDoubts();
  const agent = createAgent({
    transport,
    drivers: here,
    works: {
      endpoint: createEndpointWork({
        ...{ bwrap, clock, patience, doubts, runtime: createLlamaCpp(tools) },
        resolveModel: (model, onProgress, signal, run) =>
          models.resolveForRun(run, model, onProgress, signal),
      }),
      notebook: createNotebookWork({
        ...{ bwrap, clock, patience, gateway, jupyter: createJupyter(tools) },
      }),
      instance: createInstanceWork({ clock, patience }),
    },
    ...{ journal, inventory, models, guard, doubts, lostGpus: () => lost },
    samples: 'at_once',
    gpuUse: createGpuUse(createMachineReader(runTool), clock),
    ...{ boot_id: bootId(), clock, random, log },
  });
  const stop = () => agent.stop().then(docker.stop);
  const driverOf = (asked: string, run: RunKey): Driver | undefined =>
    asked === machine_id ? here.get(journal.read(run)?.driver ?? '') : undefined;
  return { agent: { ...agent, stop }, driverOf };
}

function openDrivers(
  options: LocalAgentOptions,
  bwrap: BwrapFinder,
  docker: Driver,
): Map<string, Driver> {
  const { data_dir, machine_id, clock, random, log } = options;
  const here = new Map<string, Driver>();
  if (suits('linux-native', process.platform)) {
    const folder = join(data_dir, 'runs');
    const workspaces = join(data_dir, 'workspaces');
    const native = { folder, workspaces, install_id: machine_id, bwrap, clock, random, log };
    here.set('linux-native', createNativeDriver(native));
  }
  // Also without an engine: one may be installed while this runs, and what ran in it is not gone.
  here.set('docker', docker);
  return here;
}

async function probeOf(driver: Driver): Promise<DriverProbe> {
  try {
    return await driver.probe();
  } catch (error) {
    const message = `its probe failed: ${describeError(error)}`;
    return {
      driver: driver.name,
      ready: false,
      reason: null,
      findings: [{ check: driver.name, status: 'missing', message, fix: 'bin/einsora doctor' }],
    };
  }
}

function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return 'unknown';
  }
}
