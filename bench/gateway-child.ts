/**
 * A process of the gateway bench: the engine that is made up, one of the least proxies that could
 * stand in front of it, or the product's gateway. Says on stdout, in one line of JSON, how it is
 * asked.
 *
 * Invariants: all listen on loopback alone, until whoever started them ends them.
 */
import { flushCompileCache } from 'node:module';
import { connect, type Server } from 'node:net';
import type { Duplex } from 'node:stream';
import { createBareProxy, listenOn } from './bare-proxy.ts';
import { createBuildingProxy } from './building-proxy.ts';
import type { Asked } from './gateway-load.ts';
import { createMock } from './gateway-mock.ts';

/** A port of loopback, or the path of a socket. */
const [role = '', upstream = '0'] = process.argv.slice(2);
const upstream_port = Number(upstream);
const is_path = upstream.startsWith('/');

const least: Record<string, () => Server> = {
  mock: createMock,
  bare: () => createBareProxy(upstream_port),
  building: () => createBuildingProxy(upstream_port),
};
const create = least[role];

if (create !== undefined) say({ port: await listenOn(create()), headers: [] });
else {
  // Only here: the others are to hold no more than they need.
  const { startProduct } = await import('./gateway-product.ts');
  const asked = await startProduct(dial);
  // As the launcher of the program does: where it was compiled before, nothing is compiled again.
  flushCompileCache();
  say(asked);
}

function dial(): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const socket = is_path ? connect(upstream) : connect(upstream_port, '127.0.0.1');
    if (!is_path) socket.setNoDelay(true);
    socket.once('error', reject);
    socket.once('connect', () => resolve(socket));
  });
}

function say(asked: Asked): void {
  console.log(JSON.stringify(asked));
}
