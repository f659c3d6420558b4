/**
 * TCP ports inside runs, reached for real, and what must not be.
 */
import assert from 'node:assert/strict';
import { type AddressInfo, createServer, type Server } from 'node:net';
import type { Duplex } from 'node:stream';
import { test } from 'node:test';
import { newRun } from '../../../test/contracts/driver.ts';
import { type NativeHarness, nativeHarness } from '../../../test/lib/native-harness.ts';
import { needs } from '../../../test/lib/parts.ts';
import { systemClock } from '../../lib/clock.ts';
import type { RunSpec } from '../driver.ts';
import { parseListeners } from './connect.ts';

const never = new AbortController().signal;
const real = needs('bwrap', 'cgroup');

/** Answers each connection with a name, then with what it is sent. */
function echoing(harness: NativeHarness, port: number, changes: Partial<RunSpec> = {}): RunSpec {
  const spec = harness.serving(newRun());
  const [node = ''] = spec.argv;
  const script = `require('node:net').createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', () => {});
    socket.write('inside ');
    socket.pipe(socket);
  }).listen(${port}, '${changes.network === 'host' ? '127.0.0.1' : '::'}');`;
  return { ...spec, argv: [node, '-e', script], ...changes };
}

async function talk(stream: Duplex, text: string): Promise<string> {
  stream.end(text);
  let answer = '';
  for await (const chunk of stream) answer += chunk;
  return answer;
}

async function reach(harness: NativeHarness, spec: RunSpec, port: number): Promise<Duplex> {
  for (let tries = 0; ; tries += 1) {
    try {
      return await harness.driver.connect(spec.run, port);
    } catch (error) {
      if (tries === 100) throw error;
      await systemClock.sleep(50);
    }
  }
}

async function listening(host: string, port = 0): Promise<{ server: Server; port: number }> {
  const server = createServer((socket) => socket.end('outside'));
  await new Promise<void>((resolve) => server.listen({ host, port }, () => resolve()));
  return { server, port: (server.address() as AddressInfo).port };
}

/** A port that is free on this machine just now. */
async function freePort(): Promise<number> {
  const { server, port } = await listening('127.0.0.1');
  await new Promise((resolve) => server.close(resolve));
  return port;
}

test('a port of a run without a network is reached, however much is sent', real, async () => {
  await using harness = nativeHarness();
  const spec = echoing(harness, 4321);
  await harness.driver.start(spec, never);
  const first = await reach(harness, spec, 4321);
  const sent = 'x'.repeat(500_000);
  assert.equal(await talk(first, sent), `inside ${sent}`);
  const more = await Promise.all([1, 2, 3].map(() => harness.driver.connect(spec.run, 4321)));
  assert.deepEqual(await Promise.all(more.map((one) => talk(one, 'hi'))), [
    ...['inside hi', 'inside hi', 'inside hi'],
  ]);
});

test("the machine's ports are not reached from a run's network", real, async () => {
  await using harness = nativeHarness();
  const { server, port } = await listening('127.0.0.1');
  try {
    const spec = echoing(harness, 4321);
    await harness.driver.start(spec, never);
    (await reach(harness, spec, 4321)).destroy();
    await assert.rejects(harness.driver.connect(spec.run, port), /ECONNREFUSED/);
  } finally {
    server.close();
  }
});

test(
  "with the machine's network, a port of the run is reached and others are not",
  real,
  async () => {
    await using harness = nativeHarness();
    const own = await freePort();
    const outside = await listening('127.0.0.1');
    const everywhere = await listening('0.0.0.0');
    try {
      const spec = echoing(harness, own, { network: 'host' });
      await harness.driver.start(spec, never);
      assert.equal(await talk(await reach(harness, spec, own), 'hi'), 'inside hi');
      for (const { port } of [outside, everywhere]) {
        await assert.rejects(harness.driver.connect(spec.run, port), /no program of the workload/);
      }
    } finally {
      outside.server.close();
      everywhere.server.close();
    }
  },
);

test('a run does not reach a port of another run', real, async () => {
  await using harness = nativeHarness();
  const own = await freePort();
  const one = echoing(harness, own, { network: 'host' });
  const others = await freePort();
  const other = echoing(harness, others, { network: 'host' });
  await harness.driver.start(one, never);
  await harness.driver.start(other, never);
  (await reach(harness, one, own)).destroy();
  (await reach(harness, other, others)).destroy();
  await assert.rejects(harness.driver.connect(other.run, own), /no program of the workload/);
});

test('a run that is not here, and a port that nobody opened, are refused', real, async () => {
  await using harness = nativeHarness();
  await assert.rejects(harness.driver.connect(newRun(), 80));
  const spec = echoing(harness, 4321);
  await harness.driver.start(spec, never);
  (await reach(harness, spec, 4321)).destroy();
  await assert.rejects(harness.driver.connect(spec.run, 4322), /4322.*ECONNREFUSED/);
});

test("the kernel's table of sockets is read: listening ones, by port, with their inode", () => {
  const row = (local: string, state: string, inode: number) =>
    `   0: ${local} 00000000:0000 ${state} 00000000:00000000 00:00000000 00000000  0 0 ${inode} 1`;
  const table = [
    '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid',
    row('0100007F:1F90', '0A', 52345),
    row('0100007F:1F90', '01', 52346),
    row('00000000:0050', '0A', 11111),
    '',
  ].join('\n');
  assert.deepEqual(parseListeners(table, 8080), [{ address: '0100007F', inode: '52345' }]);
  assert.deepEqual(parseListeners(table, 80), [{ address: '00000000', inode: '11111' }]);
  assert.deepEqual(parseListeners(table, 1), []);
});
