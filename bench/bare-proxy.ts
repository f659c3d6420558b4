/**
 * The least proxy of HTTP that could stand in front of a program, and how the servers of a bench
 * listen: on loopback alone.
 */
import { Agent, createServer, request as httpRequest } from 'node:http';
import type { AddressInfo, Server } from 'node:net';

export function createBareProxy(upstream_port: number): Server {
  const agent = new Agent({ keepAlive: true });
  return createServer((request, response) => {
    const { method, url: path, headers } = request;
    const asked = httpRequest(
      { host: '127.0.0.1', port: upstream_port, method, path, headers, agent },
      (answered) => {
        response.writeHead(answered.statusCode ?? 502, answered.headers);
        answered.pipe(response);
      },
    );
    asked.on('error', () => response.destroy());
    request.pipe(asked);
  });
}

/** Resolves with its port. Thousands may connect at once. */
export function listenOn(server: Server): Promise<number> {
  return new Promise((resolve) => {
    server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, () =>
      resolve((server.address() as AddressInfo).port),
    );
  });
}
