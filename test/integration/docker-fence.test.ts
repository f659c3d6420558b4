/**
 * The fence around containers: real packets, on the machine's real engine and kernel.
 */
import assert from 'node:assert/strict';
import { networkInterfaces } from 'node:os';
import { test } from 'node:test';
import { runName } from '../../src/core/run.ts';
import { createFence, fenceTable } from '../../src/drivers/docker/fence.ts';
import { counters } from '../../src/drivers/docker/fence-rules.ts';
import {
  findNetwork,
  type GuardedNetwork,
  removeNetwork,
} from '../../src/drivers/docker/network.ts';
import { createNft, system_path } from '../../src/drivers/docker/nft.ts';
import { DriverError, type RunSpec } from '../../src/drivers/driver.ts';
import { exec } from '../../src/lib/exec.ts';
import { silentLog } from '../../src/lib/log.ts';
import { until } from '../contracts/driver.ts';
import { type DockerHarness, dockerHarness } from '../lib/docker-harness.ts';
import { type FenceLab, fenceLab, hello, metadata, service_port } from '../lib/fence-lab.ts';
import { needs } from '../lib/parts.ts';

const real = needs('docker', 'nft');
const never = new AbortController().signal;
const nft = createNft();
const stays = 'while :; do nc -l -p 8082 -e echo hello; done';
const nameOf = ({ run }: RunSpec) => `ein-${runName(run)}`;

function fenceOf({ install_id }: DockerHarness, changes: { allow_lan?: boolean } = {}) {
  return createFence({ install_id, allow_lan: false, log: silentLog, ...changes });
}

/** What a container gets to hear at an address; empty where it reaches nothing. */
async function ask(harness: DockerHarness, spec: RunSpec, host: string, port: number) {
  const command = `nc -w 2 ${host} ${port} < /dev/null || true`;
  const args = ['exec', nameOf(spec), 'sh', '-c', command];
  return harness.docker(...args).catch(() => '');
}

async function begin(harness: DockerHarness, fence: ReturnType<typeof fenceOf>) {
  const driver = harness.openWith({ fence });
  const spec = harness.shell(stays, { network: 'fenced' });
  await driver.start(spec, never);
  return { driver, spec };
}

async function networkOf({ engine, install_id }: DockerHarness): Promise<GuardedNetwork> {
  const found = await findNetwork(engine, install_id);
  assert.ok(found);
  return found;
}

type Place = { what: string; host: string; port: number };

/** Which of the places answer it. */
async function reached(harness: DockerHarness, spec: RunSpec, places: Place[]): Promise<string[]> {
  const answers = await Promise.all(places.map(({ host, port }) => ask(harness, spec, host, port)));
  return places.flatMap(({ what }, index) => (answers[index] === hello ? [what] : []));
}

/** Everything that a guest must not reach, by what it is. */
async function forbidden(harness: DockerHarness, lab: FenceLab, other: RunSpec): Promise<Place[]> {
  const network = await networkOf(harness);
  const path = '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}';
  // Bridges of other tests come and go.
  const lasting = Object.entries(networkInterfaces()).filter(
    ([name]) => !/^(?:ein|br-)/.test(name),
  );
  const all = lasting.flatMap(([, one]) => one ?? []);
  const own = all.filter(({ family, internal }) => family === 'IPv4' && !internal);
  return [
    { what: 'a host of the local network', host: lab.lan, port: service_port },
    { what: 'a metadata service', host: metadata, port: service_port },
    ...network.gateways.map((host) => ({ what: 'its gateway', host, port: lab.own_port })),
    ...own.map(({ address: host }) => ({ what: `own ${host}`, host, port: lab.own_port })),
    {
      what: 'another container',
      host: await harness.docker('inspect', '-f', path, nameOf(other)),
      port: 8082,
    },
  ];
}

test('a container reaches the internet and DNS, and nothing near', real, async () => {
  await using lab = await fenceLab();
  await using harness = await dockerHarness();
  const fence = fenceOf(harness);
  const { spec } = await begin(harness, fence);
  const { spec: other } = await begin(harness, fence);
  try {
    assert.equal(await ask(harness, spec, lab.internet, service_port), hello);
    const dns = await harness.docker(
      ...['exec', nameOf(spec), 'sh', '-c', 'nslookup einsora.invalid 2>&1 || true'],
    );
    assert.match(dns, /NXDOMAIN|SERVFAIL|can't find/);
    assert.doesNotMatch(dns, /timed out/);
    assert.deepEqual(await reached(harness, spec, await forbidden(harness, lab, other)), []);
    const table = fenceTable(harness.install_id);
    assert.ok((await nft.packets(table, counters.passing)) > 0);
    assert.ok((await nft.packets(table, counters.arriving)) > 0);
    assert.equal(await nft.packets(table, counters.proof), 1); // once, not for each start
  } finally {
    await fence.release();
  }
});

test('without it all that is near is reached; once it is mended nothing is', real, async () => {
  await using lab = await fenceLab();
  await using harness = await dockerHarness();
  const fence = fenceOf(harness);
  const { spec } = await begin(harness, fence);
  const { spec: other } = await begin(harness, fence);
  const table = fenceTable(harness.install_id);
  try {
    const places = await forbidden(harness, lab, other);
    // The engine keeps containers apart by a rule of its own too.
    const alone = places.filter(({ what }) => what !== 'another container');
    await nft.apply(`delete table inet ${table}\n`);
    assert.deepEqual(
      await reached(harness, spec, alone),
      alone.map(({ what }) => what),
    );
    await fence.guard(await networkOf(harness));
    assert.deepEqual(await reached(harness, spec, alone), []);
    // One rule taken out is as bad as all of them.
    await nft.apply(`flush chain inet ${table} arriving\n`);
    const [own] = alone.filter(({ what }) => what === 'its gateway');
    assert.ok(own);
    assert.equal(await ask(harness, spec, own.host, own.port), hello);
    await fence.guard(await networkOf(harness));
    assert.equal(await ask(harness, spec, own.host, own.port), '');
  } finally {
    await fence.release();
  }
});

test('what began before the fence stood does not go on behind it', real, async () => {
  await using lab = await fenceLab();
  await using harness = await dockerHarness();
  const fence = fenceOf(harness);
  const { spec } = await begin(harness, fence);
  const table = fenceTable(harness.install_id);
  try {
    await nft.apply(`delete table inet ${table}\n`);
    const heard = await lab.listenInLan();
    const go = 'while [ ! -e /tmp/go ]; do sleep 0.1; done';
    const script = `(echo one; ${go}; echo two; sleep 2) | timeout 4 nc ${lab.lan} ${heard.port}`;
    const talking = harness.docker('exec', nameOf(spec), 'sh', '-c', script).catch(() => '');
    await until(harness.clock, 'it talks', async () => heard.text().includes('one') || null);
    await fence.guard(await networkOf(harness));
    await harness.docker('exec', nameOf(spec), 'touch', '/tmp/go');
    await talking;
    assert.equal(heard.text(), 'one\n');
  } finally {
    await fence.release();
  }
});

test('the owner may open the local network; the machine itself stays closed', real, async () => {
  await using lab = await fenceLab();
  await using harness = await dockerHarness();
  const fence = fenceOf(harness, { allow_lan: true });
  const { spec } = await begin(harness, fence);
  const { spec: other } = await begin(harness, fence);
  try {
    const places = await forbidden(harness, lab, other);
    const open = places.filter(({ what }) => what === 'a host of the local network');
    assert.deepEqual(
      await reached(harness, spec, places),
      open.map(({ what }) => what),
    );
  } finally {
    await fence.release();
  }
});

test('a guest with IPv6 of its own reaches nothing by it', real, async () => {
  await using lab = await fenceLab();
  await using harness = await dockerHarness();
  const fence = fenceOf(harness);
  await begin(harness, fence);
  try {
    const { bridge } = await networkOf(harness);
    const all = networkInterfaces()[bridge] ?? [];
    const own = all.find(({ family, address }) => family === 'IPv6' && address.startsWith('fe80'));
    if (own === undefined) return; // a machine without IPv6
    const guest = await lab.joinBridge(bridge);
    const call = `
      const socket = require('node:net').connect(${lab.own_port}, '${own.address}%up0');
      socket.on('data', (chunk) => { console.log(String(chunk).trim()); process.exit(); });
      socket.on('error', (error) => { console.log(error.code); process.exit(); });
      setTimeout(() => process.exit(), 2500);`;
    const heard = async () => {
      const args = ['netns', 'exec', guest, process.execPath, '-e', call];
      const env = { PATH: system_path };
      return (await exec('ip', args, { env, timeout_ms: 10_000 })).stdout.trim();
    };
    const table = fenceTable(harness.install_id);
    await nft.apply(`delete table inet ${table}\n`);
    await settled(harness, lab, guest);
    assert.equal(await heard(), hello);
    await fence.guard(await networkOf(harness));
    assert.notEqual(await heard(), hello);
  } finally {
    await fence.release();
  }
});

test(
  'where no rule can be set nothing with a network starts, and it is said why',
  real,
  async () => {
    await using harness = await dockerHarness();
    const { install_id } = harness;
    const fence = createFence({
      ...{ install_id, allow_lan: false, log: silentLog, nft: createNft('/nowhere') },
    });
    const driver = harness.openWith({ fence });
    const spec = harness.shell(stays, { network: 'fenced' });
    await assert.rejects(driver.start(spec, never), (error) => {
      assert.ok(error instanceof DriverError);
      assert.equal(error.code, 'fence_missing');
      assert.match(error.message, /nft is not installed \(.*nftables\)/);
      return true;
    });
    assert.deepEqual(await driver.observe(), []);
    const found = (await driver.probe()).findings.find(({ check }) => check === 'docker fence');
    assert.equal(found?.status, 'warning');
    assert.match(found?.fix ?? '', /nftables/);
  },
);

test('a container whose packets come past the rules does not go on', real, async () => {
  await using harness = await dockerHarness();
  const { install_id } = harness;
  const blind = { ...nft, packets: async () => 7 };
  const fence = createFence({ install_id, allow_lan: false, log: silentLog, nft: blind });
  const driver = harness.openWith({ fence });
  try {
    const spec = harness.shell(stays, { network: 'fenced' });
    await assert.rejects(driver.start(spec, never), (error) => {
      assert.ok(error instanceof DriverError);
      assert.equal(error.code, 'fence_missing');
      return true;
    });
    assert.deepEqual(await driver.observe(), []);
  } finally {
    await fence.release();
  }
});

test('a network in use stays with its fence; the last one takes it away', real, async () => {
  await using harness = await dockerHarness();
  const fence = fenceOf(harness);
  const { driver, spec } = await begin(harness, fence);
  const { engine, install_id } = harness;
  assert.equal(await removeNetwork(engine, install_id), false);
  await driver.stop(spec.run, 'park', 0);
  assert.equal(await removeNetwork(engine, install_id), true);
  await fence.release();
  await fence.release();
  assert.equal(await nft.listing(fenceTable(install_id)), null);
});

/** An address of the link is no address before the kernel knows that nobody else has it. */
async function settled(harness: DockerHarness, lab: FenceLab, guest: string): Promise<void> {
  await until(harness.clock, 'its address is its own', async () => {
    const shown = await lab.ip('-n', guest, '-6', 'address', 'show', 'dev', 'up0');
    return (/fe80/.test(shown) && !/tentative/.test(shown)) || null;
  });
}
