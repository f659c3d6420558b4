/**
 * Kept connections that ask again as soon as they are answered, for benches over HTTP.
 */
import { connect, type Socket } from 'node:net';

export type Lane = {
  /** Resolves when the answer is whole. */
  ask(): Promise<void>;
  close(): void;
};

/** Answers of all lanes together in so many milliseconds; the connections end with it. */
export async function keepAsking(
  lanes: readonly Lane[],
  ms: number,
): Promise<{ per_s: number; count: number }> {
  const began = performance.now();
  let count = 0;
  await Promise.all(
    lanes.map(async (lane) => {
      while (performance.now() - began < ms) {
        await lane.ask();
        count += 1;
      }
    }),
  );
  const took = performance.now() - began;
  for (const lane of lanes) lane.close();
  return { per_s: (count * 1000) / took, count };
}

/** A connection to a port of loopback. */
export function openSocket(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    socket.setNoDelay(true);
    socket.once('error', reject);
    socket.once('connect', () => {
      socket.off('error', reject);
      resolve(socket);
    });
  });
}
