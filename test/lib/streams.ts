/**
 * Streams in tests: read whole, or until a text came.
 */
import type { Readable } from 'node:stream';

export async function textOf(stream: Readable | null): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream ?? []) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks).toString('utf8');
}

/** Resolves with all that came, once `text` is in it; rejects where it ends without. */
export function untilText(stream: Readable, text: string | RegExp): Promise<string> {
  let seen = '';
  return new Promise((resolve, reject) => {
    const onData = (chunk: Buffer) => {
      seen += chunk.toString();
      const is_there = typeof text === 'string' ? seen.includes(text) : text.test(seen);
      if (!is_there) return;
      stream.off('data', onData);
      resolve(seen);
    };
    stream.on('data', onData);
    stream.once('end', () => reject(new Error(`it ended without ${text}: ${seen}`)));
    stream.once('error', reject);
  });
}
