/**
 * Hosts around this machine, in network namespaces of their own, that a container may or may not
 * reach: one of the internet (an address of no private range, behind a router), one of the local
 * network (with a metadata service), and a service of the machine itself.
 *
 * Invariants: each lab has names and addresses of its own, as far as a metadata service can; all of
 * it is taken down by `close`, routes too. Every service says "hello" and hangs up.
 */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { system_path } from '../../src/drivers/docker/nft.ts';
import { exec, spawnChild } from '../../src/lib/exec.ts';
import { fraction, systemRandom } from '../../src/lib/random.ts';

export const hello = 'hello';
export const service_port = 8081;
const silent_port = 8083;
const answering = `socket.on('error', () => {}); socket.end('${hello}\\n');`;
const silent = `socket.on('error', () => {}); socket.pipe(process.stdout, { end: false });`;
export const metadata = '169.254.169.254';

export type FenceLab = {
  internet: string;
  lan: string;
  /** A service of the machine, on every address that it has. */
  own_port: number;
  ip(...args: string[]): Promise<string>;
  /** One more service of the local network, that says nothing and keeps what it hears. */
  listenInLan(): Promise<{ port: number; text(): string }>;
  /** A namespace whose one interface is a port of a bridge. */
  joinBridge(bridge: string): Promise<string>;
  [Symbol.asyncDispose](): Promise<void>;
};

export async function fenceLab(): Promise<FenceLab> {
  const number = 1 + Math.floor(fraction(systemRandom) * 250);
  const tag = `f${number}`;
  const undo: (() => Promise<unknown>)[] = [];
  const servers: ReturnType<typeof spawnChild>[] = [];
  const namespace = async (name: string, subnet: string | null, addresses: string[]) => {
    await ip('netns', 'add', name);
    undo.push(() => ip('netns', 'delete', name));
    await ip('link', 'add', `${name}h`, 'type', 'veth', 'peer', 'name', 'up0', 'netns', name);
    undo.push(() => ip('link', 'delete', `${name}h`).catch(() => {})); // goes with its peer
    await ip('link', 'set', `${name}h`, 'up');
    await ip('-n', name, 'link', 'set', 'lo', 'up');
    await ip('-n', name, 'link', 'set', 'up0', 'up');
    if (subnet === null) return;
    await ip('address', 'add', `${subnet}.1/24`, 'dev', `${name}h`);
    await ip('-n', name, 'address', 'add', `${subnet}.2/24`, 'dev', 'up0');
    await ip('-n', name, 'route', 'add', 'default', 'via', `${subnet}.1`);
    for (const address of addresses) {
      await ip('-n', name, 'address', 'add', `${address}/32`, 'dev', 'lo');
      await ip('route', 'replace', `${address}/32`, 'via', `${subnet}.2`);
    }
    servers.push((await serveIn(name, service_port, answering)).child);
  };
  const internet = `203.0.113.${number}`;
  const lan = `10.77.${number}`;
  await namespace(`${tag}net`, `10.78.${number}`, [internet]);
  await namespace(`${tag}lan`, lan, [metadata]);
  const own = createServer((socket) => socket.end(`${hello}\n`)).listen(0, '::');
  await once(own, 'listening');
  return {
    ...{ internet, lan: `${lan}.2`, own_port: portOf(own), ip },
    async listenInLan() {
      const { child, heard } = await serveIn(`${tag}lan`, silent_port, silent);
      servers.push(child);
      return { port: silent_port, text: () => heard.join('') };
    },
    async joinBridge(bridge) {
      await namespace(`${tag}gst`, null, []);
      await ip('link', 'set', `${tag}gsth`, 'master', bridge);
      return `${tag}gst`;
    },
    async [Symbol.asyncDispose]() {
      own.close();
      for (const server of servers) server.kill('SIGKILL');
      for (const work of undo.reverse()) await work();
    },
  };
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}

async function ip(...args: string[]): Promise<string> {
  const done = await exec('ip', args, { env: { PATH: system_path }, timeout_ms: 10_000 });
  if (done.code !== 0) throw new Error(`ip ${args.join(' ')}: ${done.stderr}`);
  return done.stdout;
}

/** Its kill is its end: `ip netns exec` becomes what it starts. */
async function serveIn(namespace: string, port: number, serving: string) {
  const program = `require('node:net').createServer((socket) => { ${serving} })
    .listen(${port}, '0.0.0.0', () => process.stdout.write('listening'));`;
  const args = ['netns', 'exec', namespace, process.execPath, '-e', program];
  const child = spawnChild('ip', args, { env: { PATH: system_path } });
  if (child.stdout === null) throw new Error('no output');
  await once(child.stdout, 'data');
  const heard: string[] = [];
  child.stdout.on('data', (chunk) => heard.push(String(chunk)));
  return { child, heard };
}
