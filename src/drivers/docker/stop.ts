/**
 * Ends a container for sure, and keeps what is to be kept of it.
 *
 * Invariants: resolves only when the engine says that it ended and no process of it is seen; what
 * does not end is tried a bounded time and then told, not tried for ever; how it ended and what it
 * printed are on the disk before its container goes.
 */
import type { RunExit } from '../../core/run.ts';
import type { Clock } from '../../lib/clock.ts';
import { describeError } from '../../lib/log.ts';
import { DriverError } from '../driver.ts';
import { type Container, inspectContainer, removeContainer } from './container.ts';
import type { Engine } from './engine.ts';
import { driverError, isStatus, oneLine } from './engine-error.ts';
import type { OutputPuller } from './output.ts';
import { resumeContainer } from './pause.ts';
import { containerPids, signalPid } from './processes.ts';
import { type RunFolder, writeEnd } from './run-folder.ts';
import type { Watch } from './watch.ts';

export type StopDeps = { engine: Engine; watch: Watch; output: OutputPuller; clock: Clock };

const poll_ms = 100;
const kill_patience_ms = 15_000;
const remove_patience_ms = 20_000;
const wait_slice_ms = 10_000;

/** Ends it: asked first, and after `grace_ms` made to. How it ended. */
export async function endContainer(
  deps: StopDeps,
  at: RunFolder,
  container: Container,
  grace_ms: number,
): Promise<{ exit: RunExit; started_at: number | null }> {
  try {
    // What stands still could not be asked to end; some engines cannot end it either.
    await resumeContainer(deps.engine, container);
    if (isAlive(container) && grace_ms > 0) {
      await signal(deps.engine, container, container.stop_signal);
      await untilEnded(deps, container.id, grace_ms);
    }
    return await force(deps, container.id);
  } catch (error) {
    const why = oneLine(describeError(error));
    deps.watch.trouble(at.name, why);
    if (error instanceof DriverError) throw error;
    throw driverError('stop_unproven', { why }, error);
  }
}

/** Keeps how it ended and what it printed, then removes its container. */
export async function putAway(
  deps: StopDeps,
  at: RunFolder,
  container: Container,
  end: { exit: RunExit; started_at: number | null },
): Promise<void> {
  await deps.output.pull(at, container.id, true);
  writeEnd(at, end);
  await removeForSure(deps, container.id);
}

/** Resolves once there is no such container. Nothing of it executes when this is called. */
export async function removeForSure(
  { engine, clock }: Pick<StopDeps, 'engine' | 'clock'>,
  id: string,
): Promise<void> {
  const deadline = clock.monotonic() + remove_patience_ms;
  let why = 'its removal is under way';
  for (;;) {
    try {
      await removeContainer(engine, id);
      if ((await inspectContainer(engine, id)) === null) return;
    } catch (error) {
      if (!isStatus(error, 500)) throw error;
      why = describeError(error);
    }
    if (clock.monotonic() > deadline) {
      throw driverError('stop_unproven', { why: `its container cannot be removed: ${why}` });
    }
    await clock.sleep(poll_ms);
  }
}

async function force(
  deps: StopDeps,
  id: string,
): Promise<{ exit: RunExit; started_at: number | null }> {
  const { watch, engine, clock } = deps;
  const deadline = clock.monotonic() + kill_patience_ms;
  for (let is_killed = false; ; ) {
    const seen = await watch.one(id);
    if (seen === null) return { exit: unseen, started_at: null };
    const { judgement, container } = seen;
    if (judgement.state === 'exited') {
      return { exit: judgement.exit, started_at: judgement.started_at };
    }
    if (judgement.state === 'unbegun') return { exit: unseen, started_at: null };
    const { started_at } = judgement;
    const is_ghost = judgement.state === 'unknown' && judgement.is_ghost === true;
    if (is_killed && is_ghost && containerPids(container.id).length === 0) {
      return { exit: unseen, started_at };
    }
    if (!is_killed) {
      if (isAlive(container)) await signal(engine, container, 'SIGKILL');
      else for (const pid of containerPids(container.id)) signalPid(pid, 'SIGKILL');
      is_killed = true;
      await untilEnded(deps, id, kill_patience_ms);
      continue;
    }
    if (clock.monotonic() > deadline) {
      const process = `process ${container.pid}`;
      const why = `it was killed and is still there (${process}); restart the machine`;
      throw driverError('stop_unproven', { why });
    }
    await clock.sleep(poll_ms);
  }
}

const unseen: RunExit = { code: null, signal: null, out_of_memory: false };

function isAlive({ status }: Container): boolean {
  return status === 'running' || status === 'paused' || status === 'restarting';
}

async function signal(engine: Engine, { id }: Container, name: string): Promise<void> {
  try {
    const path = `/containers/${id}/kill`;
    await engine.json({ method: 'POST', path, query: { signal: name }, timeout_ms: 20_000 });
  } catch (error) {
    // Gone, or ended on its own meanwhile.
    if (!isStatus(error, 404, 409)) throw error;
  }
}

/** Resolves when the engine says that it ended, or after `ms`. */
async function untilEnded({ engine, clock }: StopDeps, id: string, ms: number): Promise<void> {
  const over = new AbortController();
  const cancel = clock.after(ms, () => over.abort());
  try {
    for (let is_first = true; !over.signal.aborted; is_first = false) {
      const found = await inspectContainer(engine, id);
      if (found === null || !isAlive(found)) return;
      // An engine that says "ended" and shows it as running is not asked in a tight loop.
      if (!is_first) await clock.sleep(poll_ms, over.signal);
      const call = {
        method: 'POST',
        path: `/containers/${id}/wait`,
        query: { condition: 'not-running' },
        timeout_ms: wait_slice_ms,
        signal: over.signal,
      } as const;
      await engine.json(call).catch(() => {}); // looked at again above
    }
  } finally {
    cancel();
  }
}
