/**
 * The clocks of one SSH connection: signing in must be done in time, a silent peer is asked whether
 * it is there, and one that uses nothing is let go.
 */
import { limits } from '../../contract/limits.ts';
import type { Clock } from '../../lib/clock.ts';

export type Watch = {
  /** Anything came from the peer. */
  heard(): void;
  rekeyed(): void;
  signedIn(): void;
  stop(): void;
};

type Told = {
  isBusy(): boolean;
  ping(): void;
  used(): void;
  /** Called once. */
  expired(why: string): void;
};

export function createWatch(clock: Clock, told: Told): Watch {
  let was_heard = true;
  let unanswered = 0;
  let is_signed_in = false;
  let is_over = false;
  let busy_at = clock.monotonic();
  let exchanges: number[] = [];
  let cancelTick = clock.after(limits.ssh_keepalive_ms, tick);
  const cancelSignIn = clock.after(limits.ssh_sign_in_ms, () => {
    if (!is_signed_in) expire('signing in took too long');
  });

  function tick(): void {
    if (is_over) return;
    cancelTick = clock.after(limits.ssh_keepalive_ms, tick);
    if (told.isBusy()) {
      busy_at = clock.monotonic();
      told.used();
    }
    if (was_heard) unanswered = 0;
    else unanswered += 1;
    was_heard = false;
    if (clock.monotonic() - busy_at > limits.ssh_idle_ms) expire('nothing was open for long');
    else if (unanswered > limits.ssh_unanswered) expire('the client does not answer');
    else if (unanswered > 0 && is_signed_in) told.ping();
  }

  function expire(why: string): void {
    if (is_over) return;
    stop();
    told.expired(why);
  }

  function stop(): void {
    is_over = true;
    cancelTick();
    cancelSignIn();
  }

  return {
    heard: () => {
      was_heard = true;
    },
    rekeyed() {
      const now = clock.monotonic();
      exchanges = exchanges.filter((at) => now - at < 60_000);
      exchanges.push(now);
      if (exchanges.length > limits.ssh_rekeys_per_minute) expire('keys were exchanged too often');
    },
    signedIn: () => {
      is_signed_in = true;
      cancelSignIn();
    },
    stop,
  };
}
