/**
 * Makes a container stand still, and go on, and get little CPU.
 *
 * Invariants: asking twice is no error, nor is a container that ended meanwhile. One with a GPU is
 * not to be lowered: an update takes the GPU from it with some toolkits.
 */
import type { Observation } from '../driver.ts';
import type { Container } from './container.ts';
import type { Engine } from './engine.ts';
import { isStatus } from './engine-error.ts';

const timeout_ms = 20_000;
/** Of 1024, which every container has. */
const low_shares = 102;
const usual_shares = 1024;

export function isPaused({ status }: Pick<Container, 'status'>): boolean {
  return status === 'paused';
}

/** What its observation says of it. */
export function treatmentOf(container: Container): Pick<Observation, 'paused' | 'lowered'> {
  return {
    ...(isPaused(container) ? { paused: true } : {}),
    ...(container.cpu_shares === low_shares ? { lowered: true } : {}),
  };
}

export function pauseContainer(engine: Engine, container: Container): Promise<void> {
  return isPaused(container) ? Promise.resolve() : ask(engine, container, 'pause');
}

export function resumeContainer(engine: Engine, container: Container): Promise<void> {
  return isPaused(container) ? ask(engine, container, 'unpause') : Promise.resolve();
}

export function lowerContainer(
  engine: Engine,
  container: Container,
  is_low: boolean,
): Promise<void> {
  return ask(engine, container, 'update', { CpuShares: is_low ? low_shares : usual_shares });
}

/** 404 and 409: it is gone, or as it should be already. */
async function ask(
  engine: Engine,
  { id }: Container,
  what: 'pause' | 'unpause' | 'update',
  json?: Record<string, unknown>,
): Promise<void> {
  try {
    const path = `/containers/${id}/${what}`;
    await engine.json({
      method: 'POST',
      path,
      timeout_ms,
      ...(json === undefined ? {} : { json }),
    });
  } catch (error) {
    if (!isStatus(error, 404, 409)) throw error;
  }
}
