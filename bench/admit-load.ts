/**
 * A worker that launches over HTTP for so long: so many connections that each ask again as soon as
 * they are answered, or all of them together at a fixed pace. Its own thread, so that it takes no
 * turn of the server's loop.
 *
 * Invariants: at a pace, a time counts from when the request was due, so that a server that stops
 * for a moment is not spared the requests of that moment.
 */
import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { parentPort, Worker, workerData } from 'node:worker_threads';

export type Load = {
  url: string;
  token: string;
  connections: number;
  /** Ends after so long, or after so many requests. */
  ms: number;
  most?: number;
  /** Requests a second, all connections together; else as many as are answered. */
  pace_per_s?: number;
  tag: string;
};
export type Loaded = { per_s: number; p50_ms: number; p99_ms: number; failed: number };

/** One thread that loads, for one server: warm by the time it measures, as the server is. */
export type Loader = { run(load: Load): Promise<Loaded>; close(): Promise<unknown> };

export function openLoader(): Loader {
  const worker = new Worker(new URL(import.meta.url), { workerData: thread_name });
  return {
    run: (load) =>
      new Promise((resolve, reject) => {
        worker.once('error', reject);
        worker.once('message', (loaded: Loaded) => {
          worker.off('error', reject);
          resolve(loaded);
        });
        worker.postMessage(load);
      }),
    close: () => worker.terminate(),
  };
}

const thread_name = 'admit-load';
const port = workerData === thread_name ? parentPort : null;
port?.on('message', async (asked: Load) => port.postMessage(await load(asked)));

async function load(asked_load: Load): Promise<Loaded> {
  const { url, token, connections, ms, most, tag, pace_per_s } = asked_load;
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const times: number[] = [];
  let failed = 0;
  let next = 0;
  const began = performance.now();
  const caller = async () => {
    while (performance.now() - began < ms && next < (most ?? Number.POSITIVE_INFINITY)) {
      next += 1;
      const number = next; // others go on counting while this one waits for its turn
      const due = pace_per_s === undefined ? 0 : began + (number * 1000) / pace_per_s;
      const early = due - performance.now();
      if (early > 0) await sleep(early);
      const asked = due === 0 ? performance.now() : due;
      const status = await post(agent, url, token, `${tag}-${number}`);
      if (status !== 201) failed += 1;
      times.push(performance.now() - asked);
    }
  };
  await Promise.all(Array.from({ length: connections }, caller));
  const elapsed = performance.now() - began;
  agent.destroy();
  times.sort((a, b) => a - b);
  const at = (share: number) => times[Math.floor(times.length * share)] ?? 0;
  return {
    ...{ per_s: ((times.length - failed) * 1000) / elapsed, failed },
    ...{ p50_ms: at(0.5), p99_ms: at(0.99) },
  };
}

function post(agent: Agent, url: string, token: string, name: string): Promise<number> {
  const body = JSON.stringify({ kind: 'instance', name, gpu_class: 'cpu-8c-32g' });
  return new Promise((resolve, reject) => {
    const sent = request(
      `${url}/v1/workloads`,
      {
        ...{ method: 'POST', agent },
        headers: {
          authorization: `Bearer ${token}`,
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(body),
          'idempotency-key': name,
        },
      },
      (response) => {
        response.on('data', () => {});
        response.on('end', () => resolve(response.statusCode ?? 0));
      },
    );
    sent.on('error', reject);
    sent.end(body);
  });
}
