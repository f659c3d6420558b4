/**
 * The short-lived endpoint key of one chat.
 *
 * Invariants: a key is good for an hour at most and revoked when the chat ends, however it ends;
 * it is replaced before it runs out; it is never printed.
 */
import type { Clock } from '../lib/clock.ts';
import { Secret } from '../lib/secret.ts';

const valid_ms = 60 * 60_000;
/** Younger keys are used for another answer; older ones are replaced first. */
const fresh_ms = 50 * 60_000;

export type ChatKey = { current(): Promise<Secret>; close(): Promise<void> };

/** Makes and revokes keys of the one endpoint. */
export type KeyMaker = {
  make(expires_in_ms: number): Promise<{ id: string; key: string }>;
  revoke(id: string): Promise<unknown>;
};

export function openChatKey(keys: KeyMaker, clock: Clock): ChatKey {
  let held: { id: string; key: Secret; made_at: number } | null = null;
  async function close(): Promise<void> {
    const before = held;
    held = null;
    // A key that cannot be revoked now (the control plane is gone) runs out by itself.
    if (before !== null) await keys.revoke(before.id).catch(() => {});
  }
  return {
    async current() {
      if (held !== null && clock.monotonic() - held.made_at < fresh_ms) return held.key;
      await close();
      const { id, key } = await keys.make(valid_ms);
      held = { id, key: new Secret(key), made_at: clock.monotonic() };
      return held.key;
    },
    close,
  };
}
