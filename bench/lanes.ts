/**
 * Kept connections that ask again as soon as they are answered, for benches over HTTP.
 */
import { connect, type Socket } from 'node:net';

export type Lane = {
  /** Resolves when the answer is whole. */
  ask(): Promise<void>;
  close(): void;
};

/** Takes a piece of an answer: whether it is whole with that. Throws where it is none. */
export type Hear = (chunk: Buffer) => boolean;

/**
 * Asks the same for every answer; `hearing` begins to listen to a connection. A server may end one
 * that waits until others are open, or between two questions: the next question dials anew.
 */
export async function dialLane(port: number, question: string, hearing: () => Hear): Promise<Lane> {
  let settle: () => void = () => {};
  let failed: (error: unknown) => void = () => {};
  const dial = async () => {
    const opened = await openSocket(port);
    const hear = hearing();
    opened.on('data', (chunk: Buffer) => {
      try {
        if (hear(chunk)) settle();
      } catch (error) {
        failed(error);
      }
    });
    opened.once('error', (error) => failed(error));
    opened.once('close', () => failed(new Error('a connection ended')));
    return opened;
  };
  let socket = await dial();
  return {
    close: () => socket.destroy(),
    async ask() {
      if (!socket.writable) socket = await dial();
      await new Promise<void>((resolve, reject) => {
        settle = resolve;
        failed = reject;
        socket.write(question);
      });
    },
  };
}

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
