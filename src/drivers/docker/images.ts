/**
 * Images of the engine: found, or pulled, once for everybody who waits.
 *
 * Invariants: one pull for each image at a time; it goes on while anybody waits and is called off
 * with the last one; what cannot succeed (no such image, a full disk) is not tried again; what was
 * built here is never asked of a registry. A run gets the image by its id, so that a tag that moves
 * meanwhile changes nothing.
 */
import { registryOf, registrySecret } from '../../core/registries.ts';
import type { Clock } from '../../lib/clock.ts';
import { describeError } from '../../lib/log.ts';
import { digest as digestOf } from '../../lib/secret.ts';
import type { DriverError } from '../driver.ts';
import type { Engine } from './engine.ts';
import { driverError, isStatus, oneLine, startFailed } from './engine-error.ts';
import { isBuiltHere, pullTargetOf } from './image-reference.ts';
import { type OnPulled, type PullPatience, pullOnce, type SignIn } from './pull.ts';

export type Image = { id: string; reference: string; digest: string | null };

export type Images = {
  /** Rejects with a DriverError. `sign_in` is used where it has to be pulled. */
  ensure(
    reference: string,
    signal: AbortSignal,
    onProgress?: OnPulled,
    sign_in?: SignIn | null,
  ): Promise<Image>;
};

type Wanted = { reference: string; sign_in: SignIn | null };
type Pull = {
  done: Promise<void>;
  stop: AbortController;
  listeners: Set<OnPulled>;
  waiting: number;
};

export function createImages(deps: {
  engine: Engine;
  clock: Clock;
  patience: PullPatience;
}): Images {
  const { engine } = deps;
  const pulls = new Map<string, Pull>();

  function beginPull(key: string, reference: string, sign_in: SignIn | null): Pull {
    const stop = new AbortController();
    const listeners = new Set<OnPulled>();
    const tell: OnPulled = (...bytes) => {
      for (const listener of listeners) listener(...bytes);
    };
    const wanted = { reference, sign_in };
    const done = pullWithRetries(deps, wanted, tell, stop.signal).finally(() => {
      if (pulls.get(key) === pull) pulls.delete(key);
    });
    done.catch(() => {}); // whoever waits hears of it
    const pull: Pull = { done, stop, listeners, waiting: 0 };
    pulls.set(key, pull);
    return pull;
  }

  async function share(
    { reference, sign_in }: Wanted,
    signal: AbortSignal,
    listener: OnPulled,
  ): Promise<void> {
    // Who signs in as somebody else does not wait for what they are refused.
    const key = sign_in === null ? reference : `${reference} ${digestOf(sign_in.password)}`;
    const pull = pulls.get(key) ?? beginPull(key, reference, sign_in);
    pull.listeners.add(listener);
    pull.waiting += 1;
    const call = calledOff(signal);
    try {
      await Promise.race([pull.done, call.off]);
    } finally {
      call.forget();
      pull.listeners.delete(listener);
      pull.waiting -= 1;
      if (pull.waiting === 0) {
        pull.stop.abort();
        if (pulls.get(key) === pull) pulls.delete(key);
      }
    }
  }

  return {
    async ensure(reference, signal, onProgress = () => {}, sign_in = null) {
      const found = await findImage(engine, reference);
      if (found !== null) return found;
      if (isBuiltHere(reference)) throw driverError('image_not_built', { image: reference });
      await share({ reference, sign_in }, signal, (...bytes) => onProgress(...bytes));
      const pulled = await findImage(engine, reference);
      if (pulled === null) throw startFailed(`${reference} was pulled and is not there`);
      return pulled;
    },
  };
}

async function findImage(engine: Engine, reference: string): Promise<Image | null> {
  try {
    const path = `/images/${encodeURI(reference)}/json`;
    const found = (await engine.json({ method: 'GET', path })) as {
      Id?: string;
      RepoDigests?: string[];
    } | null;
    if (typeof found?.Id !== 'string') return null;
    const digest = found.RepoDigests?.[0]?.split('@')[1] ?? null;
    return { id: found.Id, reference, digest };
  } catch (error) {
    if (isStatus(error, 404)) return null;
    if (isStatus(error, 400)) throw refused(reference, error);
    throw error;
  }
}

async function pullWithRetries(
  { engine, clock, patience }: { engine: Engine; clock: Clock; patience: PullPatience },
  { reference, sign_in }: Wanted,
  onProgress: OnPulled,
  signal: AbortSignal,
): Promise<void> {
  const target = { ...pullTargetOf(reference), sign_in };
  const { silence_ms, waits_ms } = patience;
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await pullOnce({ engine, clock, silence_ms }, target, onProgress, signal);
    } catch (error) {
      if (signal.aborted) throw startFailed('it was called off', error);
      const refusal = hopeless(reference, error);
      if (refusal !== null) throw refusal;
      const wait_ms = waits_ms[attempt];
      if (wait_ms === undefined) throw pullFailed(reference, attempt + 1, error);
      await clock.sleep(wait_ms, signal);
    }
  }
}

/** What engines and registries say of an image that is not there, or not for everybody. */
const is_missing = new RegExp(
  [
    ...['not found', 'manifest unknown', 'does not exist'],
    ...['access denied', 'denied:', 'unauthorized', 'basic auth credentials'],
  ].join('|'),
  'i',
);

/** What another try would not change. */
function hopeless(reference: string, error: unknown): DriverError | null {
  const message = describeError(error);
  if (/no space left on device/i.test(message)) {
    return driverError('container_disk_full', { why: oneLine(message) }, error);
  }
  if (/no matching manifest|does not match the specified platform/i.test(message)) {
    return refused(reference, error);
  }
  if (isStatus(error, 404) || is_missing.test(message)) {
    const registry = registryOf(reference);
    const details = { image: reference, registry, secret: registrySecret(registry) };
    return driverError('image_not_found', details, error);
  }
  return isStatus(error, 400) ? refused(reference, error) : null;
}

function refused(image: string, error: unknown): DriverError {
  return driverError('image_refused', { image, why: oneLine(describeError(error)) }, error);
}

function pullFailed(image: string, tries: number, error: unknown): DriverError {
  const why = oneLine(describeError(error));
  return driverError('image_pull_failed', { image, tries, why }, error);
}

/** `off` rejects when it is called off; `forget` leaves the signal alone again. */
function calledOff(signal: AbortSignal): { off: Promise<never>; forget(): void } {
  const { promise: off, reject } = Promise.withResolvers<never>();
  off.catch(() => {}); // also where the pull has ended first
  const refuse = () => reject(startFailed('it was called off'));
  if (signal.aborted) refuse();
  signal.addEventListener('abort', refuse, { once: true });
  return { off, forget: () => signal.removeEventListener('abort', refuse) };
}
