/**
 * From desired state to a container with exactly its GPUs: the agent's runs over the docker driver,
 * against a stand-in of the engine's socket.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { createAgentRig, desire, runOf } from '../../test/lib/agent-rig.ts';
import { type FakeEngine, fakeEngine } from '../../test/lib/fake-engine.ts';
import { writeKnownAnswerModel } from '../../test/lib/known-answer.ts';
import type { DesiredRun, EndpointSpec } from '../contract/sync.ts';
import { createDockerDriver } from '../drivers/docker/docker.ts';
import type { Driver } from '../drivers/driver.ts';
import { systemClock } from '../lib/clock.ts';
import { silentLog } from '../lib/log.ts';
import { systemRandom } from '../lib/random.ts';
import { engineCommand, readiness } from '../runtimes/llama-cpp/command.ts';
import type { Runtime } from '../runtimes/runtime.ts';
import { createEndpointWork } from './endpoint-run.ts';
import type { LocalRun } from './local-run.ts';
import { patience } from './run-watch.ts';
import { createRuns } from './runs.ts';

const never = () => Promise.reject(new Error('no engine of the machine is wanted'));
const runtime: Runtime = {
  ...{ name: 'in an image', readiness, command: engineCommand },
  ...{ find: never, install: never },
};

const uuids = ['GPU-aaaa-1', 'GPU-bbbb-2'];
const run = runOf(1);

function desired(image_id: string, model: string, more: Partial<EndpointSpec> = {}): DesiredRun {
  const whole = desire(run);
  const spec = whole.spec as EndpointSpec;
  const on = { image_id, accelerator: 'nvidia', gpu_uuids: uuids, model, ...more };
  return { ...whole, driver: 'docker', spec: { ...spec, ...on } };
}

/** Brings it up until its driver's start has come to an end, and gives what became of it. */
async function bringUp(wanted: DesiredRun, prepare: (fake: FakeEngine) => void = () => {}) {
  await using fake = await fakeEngine({ newest: '1.50', oldest: '1.44' });
  fake.info.DiscoveredDevices = uuids.map((uuid) => ({ ID: `nvidia.com/gpu=${uuid}` }));
  prepare(fake);
  const rig = createAgentRig();
  const folder = mkdtempSync(join(tmpdir(), 'einsora-gpu-runs-'));
  const settled = Promise.withResolvers<LocalRun | undefined>();
  try {
    const docker = createDockerDriver({
      ...{ folder: join(folder, 'containers'), install_id: 'mine', fence: null },
      ...{ socket_path: fake.socket_path, clock: systemClock, random: systemRandom },
      log: silentLog,
    });
    const driver: Driver = {
      ...docker,
      async start(spec, signal) {
        await docker.start(spec, signal);
        settled.resolve(undefined);
      },
    };
    const path = join(folder, 'model.gguf');
    writeKnownAnswerModel(path);
    const runs = createRuns({
      ...{ ...rig.deps, drivers: new Map([['docker', driver]]) },
      works: {
        ...rig.deps.works,
        endpoint: createEndpointWork({
          ...{ bwrap: { find: never, install: never }, runtime, clock: rig.clock, patience },
          doubts: rig.doubts,
          resolveModel: async (name) => ({ ok: true, path, name }),
        }),
      },
      changed() {
        const ended = runs.locals().find(({ phase }) => phase === 'ended');
        if (ended !== undefined) settled.resolve(ended);
      },
    });
    runs.carryOut([{ step: 'bring-up', desired: wanted }]);
    const ended = await settled.promise;
    await runs.leave();
    return { ended, containers: [...fake.containers] };
  } finally {
    rig.close();
    rmSync(folder, { recursive: true });
  }
}

type Body = { Entrypoint: string[]; Cmd: string[]; Env: string[]; HostConfig: object };

test("an endpoint's container is asked for with its GPUs, and llama.cpp uses them", async () => {
  const { ended, containers } = await bringUp(desired('llama-cpp-cuda', 'a'));
  assert.equal(ended, undefined);
  const body = containers[0]?.body as unknown as Body & {
    HostConfig: { DeviceRequests: unknown; NetworkMode: string };
  };
  assert.deepEqual(body.HostConfig.DeviceRequests, [
    { Driver: 'cdi', DeviceIDs: uuids.map((uuid) => `nvidia.com/gpu=${uuid}`) },
  ]);
  assert.equal(body.HostConfig.NetworkMode, 'none');
  assert.deepEqual(body.Entrypoint, ['/app/llama-server']);
  const { Cmd, Env } = body;
  assert.equal(Cmd[Cmd.indexOf('--gpu-layers') + 1], 'all');
  assert.ok(!Cmd.includes('--device') && !Env.includes('NVIDIA_VISIBLE_DEVICES=void'));
});

test('one in which its GPUs are not seen ends with what was seen, and leaves nothing', async () => {
  const { ended, containers } = await bringUp(desired('llama-cpp-cuda', 'a'), (fake) => {
    fake.seen_gpus = ['GPU-aaaa-1'];
  });
  assert.equal(ended?.end?.reason, 'gpu_not_injected');
  assert.match(String(ended?.end?.details.why), /GPU-bbbb-2 is not in it/);
  assert.deepEqual(containers, []);
});

test('vLLM is given no GGUF: it is said before anything is made', async () => {
  const { ended, containers } = await bringUp(desired('einsora-vllm', 'a'));
  assert.equal(ended?.end?.reason, 'no_engine_for_format');
  assert.deepEqual(containers, []);
});
