/**
 * Keeps the fence standing between two starts, and takes it away with the last network.
 *
 * Invariants: what somebody else did to the rules is mended within `every_ms`; an engine that is
 * away changes nothing; containers that go on keep their network and their fence when this program
 * ends.
 */
import { type Clock, withDeadline } from '../../lib/clock.ts';
import { describeError, type Log } from '../../lib/log.ts';
import { createEngine } from './engine.ts';
import { EngineDown } from './engine-error.ts';
import { type Fence, findNetwork, removeNetwork } from './network.ts';

export type FenceKeeperOptions = {
  socket_path: string;
  install_id: string;
  fence: Fence;
  clock: Clock;
  log: Log;
};

const every_ms = 15_000;
/** An engine that hangs keeps nobody from ending. */
const stop_patience_ms = 3000;

export function startFenceKeeper(options: FenceKeeperOptions): { stop(): Promise<void> } {
  const { install_id, fence, clock, log } = options;
  const engine = createEngine(options.socket_path, clock);
  const stopping = new AbortController();
  let told = '';

  async function look(): Promise<void> {
    try {
      const network = await findNetwork(engine, install_id);
      if (network !== null) await fence.guard(network);
      told = '';
    } catch (error) {
      if (error instanceof EngineDown) return;
      const why = describeError(error);
      // Told once for each way it fails, not every few seconds.
      if (why !== told) log.error({ error: why }, 'the fence around containers does not stand');
      told = why;
    }
  }

  async function loop(): Promise<void> {
    while (!stopping.signal.aborted) {
      await look();
      await clock.sleep(every_ms, stopping.signal);
    }
  }

  async function leave(): Promise<void> {
    await running;
    if (await removeNetwork(engine, install_id)) await fence.release();
  }

  const running = loop();
  return {
    async stop() {
      stopping.abort();
      const why = 'the engine takes too long';
      await withDeadline(clock, stop_patience_ms, why, leave()).catch((error) => {
        if (error instanceof EngineDown) return;
        log.debug({ error: describeError(error) }, 'the fence stays');
      });
    },
  };
}
