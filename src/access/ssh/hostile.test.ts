/**
 * Clients that mean no good, or are gone without a word: each ends its own connection, and memory
 * stays bounded.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { PassThrough, Readable, Writable } from 'node:stream';
import { after, before, test } from 'node:test';
import { Client, type ClientChannel } from 'ssh2';
import { createFakeClock } from '../../../test/lib/fake-clock.ts';
import { createSshRig, type SshRig } from '../../../test/lib/ssh-rig.ts';
import { limits } from '../../contract/limits.ts';
import { seededRandom } from '../../lib/random.ts';
import type { ExecSession } from '../../lib/session.ts';

let rig: SshRig;
before(async () => {
  rig = await createSshRig({ inside: { exec: async () => quietProgram() } });
});
after(() => rig.close());

/** A program that reads nothing and ends when it is killed. */
function quietProgram(stdout: Readable = new PassThrough()): ExecSession {
  const ended = Promise.withResolvers<{ code: number | null; signal: string | null }>();
  return {
    stdin: new Writable({ highWaterMark: 1, write: () => {} }),
    stdout,
    stderr: null,
    resize: () => {},
    kill: () => ended.resolve({ code: null, signal: 'SIGKILL' }),
    exited: ended.promise,
  };
}

/** The insides of ssh2's client, to say what it would not say by itself. */
type Inner = {
  _sock: Socket;
  _protocol: {
    _packetRW: {
      write: { allocStart: number; alloc(n: number): Buffer; finalize(b: Buffer): Buffer };
    };
    _cipher: { encrypt(packet: Buffer): void };
    rekey(): void;
    channelData(id: number, data: Buffer): void;
  };
};
const innerOf = (client: Client) => client as unknown as Inner;

function begin(port: number, debug: (line: string) => void = () => {}): Client {
  const client = new Client();
  client.on('error', () => {});
  client.connect({ ...{ host: '127.0.0.1', port, username: 'me', keepaliveInterval: 0 }, debug });
  return client;
}

async function signedIn(port: number, debug?: (line: string) => void): Promise<Client> {
  const client = begin(port, debug);
  await once(client, 'ready');
  return client;
}

function start(client: Client, command = 'anything'): Promise<ClientChannel | Error> {
  return new Promise((resolve) => {
    client.exec(command, (error, channel) => resolve(error ?? channel));
  });
}

/** Sends a packet with this payload, encrypted as any other. */
function send(client: Client, payload: Buffer): void {
  const { write } = innerOf(client)._protocol._packetRW;
  const packet = write.alloc(payload.length);
  packet.set(payload, write.allocStart);
  innerOf(client)._protocol._cipher.encrypt(write.finalize(packet));
}

function gone(client: Client): Promise<void> {
  return new Promise((resolve) => client.once('close', () => resolve()));
}

/** The server goes on for others. */
async function stillServes(): Promise<void> {
  const client = await signedIn(rig.port);
  assert.ok(!((await start(client)) instanceof Error));
  client.destroy();
  await gone(client);
}

async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await new Promise(setImmediate);
}

test('bytes that are no SSH end the connection', async () => {
  const random = seededRandom(1);
  for (let round = 0; round < 40; round += 1) {
    const socket = connect(rig.port, '127.0.0.1');
    socket.on('error', () => {});
    socket.resume();
    const start = round % 2 === 0 ? '' : 'SSH-2.0-x\r\n';
    socket.write(start);
    socket.write(Buffer.concat([random.bytes(1 + round * 100), Buffer.from('\r\n\n')]));
    await once(socket, 'close');
  }
  await stillServes();
});

test('a line that never ends, and a packet of four gigabytes, end the connection', async () => {
  for (const text of ['x'.repeat(100_000), 'SSH-2.0-x\r\n\xff\xff\xff\xff\x00']) {
    const socket = connect(rig.port, '127.0.0.1');
    socket.on('error', () => {});
    socket.resume();
    socket.write(Buffer.from(text, 'latin1'));
    await once(socket, 'close');
  }
  await stillServes();
});

test('who says nothing is let go when the time to sign in is over', async () => {
  const clock = createFakeClock();
  const patient = await createSshRig({ clock });
  const socket = connect(patient.port, '127.0.0.1');
  socket.resume();
  await once(socket, 'data');
  while (patient.served.length === 0) await turns(1);
  const closed = once(socket, 'close');
  await clock.advance(limits.ssh_sign_in_ms);
  await clock.advance(limits.ssh_goodbye_ms);
  await closed;
  await patient.close();
});

test('who is gone without a word is asked, and then let go', async () => {
  const clock = createFakeClock();
  const patient = await createSshRig({ clock, inside: { exec: async () => quietProgram() } });
  const client = await signedIn(patient.port);
  assert.ok(!((await start(client)) instanceof Error));
  const [served] = patient.served;
  innerOf(client)._sock.pause();
  for (let tick = 0; tick <= limits.ssh_unanswered + 1; tick += 1) {
    await clock.advance(limits.ssh_keepalive_ms);
    await turns(5);
  }
  await clock.advance(limits.ssh_last_words_ms);
  await served?.closed;
  await clock.advance(limits.ssh_goodbye_ms);
  innerOf(client)._sock.destroy();
  await patient.close();
});

test('of a thousand channels few are opened, and the rest refused', async () => {
  const client = await signedIn(rig.port);
  const asked = await Promise.all(Array.from({ length: 1000 }, () => start(client)));
  const opened = asked.filter((one) => !(one instanceof Error));
  assert.equal(opened.length, limits.ssh_channels);
  const [refused] = asked.filter((one) => one instanceof Error);
  assert.match(String(refused), /channels are open already/);
  client.destroy();
  await stillServes();
});

test('a person has so many connections and no more', async () => {
  const many = await createSshRig();
  const limit = limits.ssh_connections_per_user;
  const clients = await Promise.all(Array.from({ length: limit }, () => signedIn(many.port)));
  const late = begin(many.port);
  await gone(late);
  for (const client of clients) client.destroy();
  await Promise.all(many.served.map((one) => one.closed));
  const next = await signedIn(many.port);
  next.destroy();
  await many.close();
});

test('more than the window is not taken', async () => {
  const client = await signedIn(rig.port);
  const channel = await start(client);
  assert.ok(!(channel instanceof Error));
  const { id } = (channel as unknown as { outgoing: { id: number } }).outgoing;
  const closed = gone(client);
  for (let sent = 0; sent < 80; sent += 1) {
    innerOf(client)._protocol.channelData(id, Buffer.alloc(32_000));
  }
  await closed;
  await stillServes();
});

/** A stream that counts what was taken of it, without end. */
function endless() {
  const taken = { bytes: 0 };
  const stream = new Readable({
    highWaterMark: 16 * 1024,
    read() {
      taken.bytes += 16 * 1024;
      this.push(Buffer.alloc(16 * 1024, 'x'));
    },
  });
  return { taken, stream };
}

/** Lets the server send two gigabytes. */
function widen(client: Client, channel: ClientChannel): void {
  const { id } = (channel as unknown as { outgoing: { id: number } }).outgoing;
  const adjust = Buffer.alloc(9, 93);
  adjust.writeUInt32BE(id, 1);
  adjust.writeUInt32BE(0x7fffffff, 5);
  send(client, adjust);
}

/** Bytes that a program may be ahead of a client that does not read. */
const ahead_bytes = 8 * 1024 * 1024;

test('a client that does not read holds its program back', async () => {
  const { taken, stream } = endless();
  const other = await createSshRig({ inside: { exec: async () => quietProgram(stream) } });
  const client = await signedIn(other.port);
  const channel = await start(client);
  assert.ok(!(channel instanceof Error));
  innerOf(client)._sock.pause();
  widen(client, channel);
  let before_it = -1;
  while (taken.bytes !== before_it) {
    before_it = taken.bytes;
    await turns(300);
  }
  assert.ok(taken.bytes < ahead_bytes, `${taken.bytes}`);
  innerOf(client)._sock.destroy();
  await other.close();
});

test('so does one that begins to exchange keys and never ends', async () => {
  const { taken, stream } = endless();
  const other = await createSshRig({ inside: { exec: async () => quietProgram(stream) } });
  const client = await signedIn(other.port);
  // It gives all the window that there is, then asks for new keys and is silent.
  const channel = await start(client);
  assert.ok(!(channel instanceof Error));
  const inner = innerOf(client);
  inner._sock.pause();
  widen(client, channel);
  inner._protocol.rekey();
  await turns(300);
  const at = taken.bytes;
  inner._sock.resume();
  inner._sock.removeAllListeners('data');
  inner._sock.on('data', () => {});
  await turns(1000);
  assert.ok(taken.bytes - at < ahead_bytes, `${taken.bytes - at}`);
  inner._sock.destroy();
  await other.close();
});

test('signing in is tried so often and no more', async () => {
  const key = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH';
  const locked = await createSshRig({ keys: key });
  const client = new Client();
  client.on('error', () => {});
  let tries = 0;
  client.connect({
    ...{ host: '127.0.0.1', port: locked.port, username: 'me' },
    authHandler: () => {
      tries += 1;
      return { type: 'none', username: 'me' };
    },
  });
  await gone(client);
  assert.ok(tries > 5 && tries <= limits.ssh_sign_in_tries + 2, `${tries}`);
  assert.deepEqual(locked.lines, []);
  await locked.close();
});

test('before signing in nothing else is done', async () => {
  const key = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH';
  const locked = await createSshRig({ keys: key });
  for (const type of [80, 90, 93, 94, 96, 97, 98]) {
    const client = begin(locked.port);
    await once(client, 'handshake');
    const closed = gone(client);
    send(
      client,
      Buffer.concat([Buffer.of(type, 0, 0, 0, 7), Buffer.from('session'), Buffer.alloc(64)]),
    );
    await closed;
  }
  assert.deepEqual(locked.lines, []);
  await locked.close();
});

test('packets of chance end at most their own connection', async () => {
  const random = seededRandom(3);
  for (let round = 0; round < 15; round += 1) {
    const client = await signedIn(rig.port);
    await start(client);
    for (let sent = 0; sent < 40 && !innerOf(client)._sock.destroyed; sent += 1) {
      const [type = 0, length = 0, shape = 0] = random.bytes(3);
      const payload = Buffer.from(random.bytes(1 + length));
      payload[0] = shape < 200 ? 80 + (type % 21) : type;
      // As often as not about the channel that is there, with a length that could be.
      if (shape % 2 === 0 && payload.length > 12) payload.fill(0, 1, 8);
      try {
        send(client, payload);
      } catch {
        break;
      }
      await turns(1);
    }
    client.destroy();
    innerOf(client)._sock.destroy();
  }
  await stillServes();
});
