/**
 * The fence over time: set once, mended when somebody else takes it away, there while the engine is
 * not, and gone with the last container.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createFence, fenceTable } from '../../src/drivers/docker/fence.ts';
import { startFenceKeeper } from '../../src/drivers/docker/fence-keeper.ts';
import { provePacket } from '../../src/drivers/docker/fence-proof.ts';
import { counters, proof_port } from '../../src/drivers/docker/fence-rules.ts';
import { findNetwork } from '../../src/drivers/docker/network.ts';
import { createNft } from '../../src/drivers/docker/nft.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { silentLog } from '../../src/lib/log.ts';
import { until } from '../contracts/driver.ts';
import { dockerHarness } from '../lib/docker-harness.ts';
import { ownDockerd } from '../lib/own-dockerd.ts';
import { needs } from '../lib/parts.ts';
import { keepingLog, type LogLine } from '../lib/rig.ts';

const real = needs('docker', 'nft');
const never = new AbortController().signal;
const stays = 'while :; do sleep 1; done';
const nft = createNft();
/** Every wait is a short one. */
const hastyClock = {
  ...systemClock,
  sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(Math.min(ms, 100), signal),
};

test('rules are set once, and another hand on them is told and mended', real, async () => {
  await using harness = await dockerHarness();
  const { engine, install_id } = harness;
  const lines: LogLine[] = [];
  let set = 0;
  const counting = {
    ...nft,
    apply(text: string) {
      set += 1;
      return nft.apply(text);
    },
  };
  const log = keepingLog(lines);
  const fence = createFence({ install_id, allow_lan: false, log, nft: counting });
  const driver = harness.openWith({ fence });
  try {
    await driver.start(harness.shell(stays, { network: 'fenced' }), never);
    await driver.start(harness.shell(stays, { network: 'fenced' }), never);
    assert.equal(set, 1);
    assert.equal(lines.length, 0);
    const network = await findNetwork(engine, install_id);
    assert.ok(network);
    await nft.apply(`add rule inet ${fenceTable(install_id)} arriving accept\n`);
    await fence.guard(network);
    assert.equal(set, 2);
    assert.match(lines[0]?.message ?? '', /changed by somebody else/);
    await fence.guard(network);
    assert.equal(set, 2);
  } finally {
    await fence.release();
  }
});

test('a keeper mends what was taken away, and takes away what nobody needs', real, async () => {
  await using harness = await dockerHarness();
  const { install_id } = harness;
  const parts = { install_id, log: silentLog };
  const table = fenceTable(install_id);
  const open = () => {
    const fence = createFence({ ...parts, allow_lan: false });
    const place = { socket_path: harness.engine.socket_path, clock: hastyClock };
    return { fence, keeper: startFenceKeeper({ ...parts, ...place, fence }) };
  };
  const first = open();
  const driver = harness.openWith({ fence: first.fence });
  const spec = harness.shell(stays, { network: 'fenced' });
  await driver.start(spec, never);
  await nft.apply(`delete table inet ${table}\n`);
  const stands = async () => (await nft.listing(table)) !== null || null;
  await until(systemClock, 'it stands again', stands);
  await first.keeper.stop();
  assert.equal(await stands(), true, 'a container goes on behind it');
  // The next program: it knows of none, and finds what is there.
  await nft.apply(`delete table inet ${table}\n`);
  const second = open();
  await until(systemClock, 'it stands again', stands);
  await driver.stop(spec.run, 'remove', 0);
  await second.keeper.stop();
  assert.equal(await stands(), null);
  assert.equal(await findNetwork(harness.engine, install_id), null);
});

test('it holds while the engine is away, and after it came back', real, async () => {
  await using engine = await ownDockerd({ live_restore: true });
  await using harness = await dockerHarness({ socket_path: engine.socket_path });
  const { install_id } = harness;
  const fence = createFence({ install_id, allow_lan: false, log: silentLog });
  const driver = harness.openWith({ fence });
  const spec = harness.shell(stays, { network: 'fenced' });
  await driver.start(spec, never);
  try {
    const network = await findNetwork(harness.engine, install_id);
    const [gateway = ''] = network?.gateways ?? [];
    const name = `ein-${spec.run.workload_id}.0.1`;
    const pid = Number(await harness.docker('inspect', '-f', '{{.State.Pid}}', name));
    const dropped = async () => {
      const before = await nft.packets(fenceTable(install_id), counters.proof);
      assert.equal(await provePacket(pid, gateway, proof_port), true);
      return (await nft.packets(fenceTable(install_id), counters.proof)) - before;
    };
    assert.equal(await dropped(), 1);
    await engine.kill();
    assert.equal(await dropped(), 1);
    await engine.start();
    assert.equal(await dropped(), 1);
    assert.ok(network);
    await fence.guard(network);
    assert.equal(await dropped(), 1);
  } finally {
    await fence.release();
  }
});
