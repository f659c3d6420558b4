/**
 * A process of the access bench: the program behind the proxies, the least proxy that could stand
 * in front of it, or the product's. Says on stdout, in one line of JSON, how it is asked.
 *
 * Invariants: the program costs as little as it can, so that what is measured is what stands before
 * it; all listen on loopback alone, until whoever started them ends them.
 */
import { createServer, type Socket } from 'node:net';
import { systemClock } from '../src/lib/clock.ts';
import { systemRandom } from '../src/lib/random.ts';
import { createSiteRig } from '../test/lib/site-rig.ts';
import { createBareProxy, listenOn } from './bare-proxy.ts';

export type Asked = { port: number; host: string; headers: string[] };

const [role = '', upstream = '0'] = process.argv.slice(2);
const upstream_port = Number(upstream);
const body = Buffer.alloc(1024, 'x');
const small = Buffer.concat([
  Buffer.from(
    `HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Length: ${body.length}\r\n\r\n`,
  ),
  body,
]);
const piece = Buffer.alloc(256 * 1024, 7);

if (role === 'program') say(await listenOn(createServer(answer)));
else if (role === 'bare') say(await listenOn(createBareProxy(upstream_port)));
else await product();

/** Answers `GET /small` with a kilobyte, and `GET /big/<bytes>` with so many. */
function answer(socket: Socket): void {
  socket.setNoDelay(true);
  socket.on('error', () => {});
  socket.on('data', (data) => {
    const text = data.toString('latin1');
    const big = /^GET \/big\/(\d+)/.exec(text)?.[1];
    if (big === undefined) return void socket.write(small);
    const size = Number(big);
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\n\r\n`);
    let left = size;
    const pump = () => {
      while (left > 0) {
        const part = left < piece.length ? piece.subarray(0, left) : piece;
        left -= part.length;
        if (!socket.write(part)) return void socket.once('drain', pump);
      }
    };
    pump();
  });
}

/** The product's listeners and proxy, with a notebook whose run is the program. */
async function product(): Promise<void> {
  const { connect } = await import('node:net');
  const site = await createSiteRig({ clock: systemClock, random: systemRandom });
  site.dial.now = () =>
    new Promise((resolve, reject) => {
      const socket = connect(upstream_port, '127.0.0.1');
      socket.setNoDelay(true);
      socket.once('error', reject);
      socket.once('connect', () => resolve(socket));
    });
  const lab = await site.addNotebook();
  const cookie = await site.open(lab);
  say(site.port, lab.host, [`Cookie: ${cookie}`]);
}

function say(port: number, host = `127.0.0.1:${port}`, headers: string[] = []): void {
  console.log(JSON.stringify({ port, host, headers } satisfies Asked));
}
