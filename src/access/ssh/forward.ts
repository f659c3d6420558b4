/**
 * One forwarded connection (`ssh -L`, `ssh -D`): a port inside the run and a channel, joined.
 *
 * Invariants: each half ends by itself, as TCP's do; whichever end breaks, the other ends too.
 */
import type { Duplex } from 'node:stream';
import type { Channel } from './channel.ts';

export function join(channel: Channel, stream: Duplex): void {
  void carry(channel, stream);
}

async function carry(channel: Channel, stream: Duplex): Promise<void> {
  stream.on('error', () => stream.destroy());
  void channel.closed.then(() => stream.destroy());
  const drop = () => channel.input.resume();
  stream.once('close', drop);
  channel.input.pipe(stream);
  try {
    for await (const chunk of stream.iterator({ destroyOnReturn: false })) {
      if (!(await channel.write(chunk as Buffer))) break;
    }
    channel.endOutput();
    if (!stream.writableFinished && !stream.closed) {
      await new Promise<void>((resolve) => {
        stream.once('finish', resolve).once('close', resolve);
      });
    }
  } catch {
    // It broke: the client is told by the close.
  }
  channel.finish(null);
}
