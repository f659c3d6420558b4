/**
 * A child process with the end of what it said, and whether it is over.
 */
import type { spawnChild } from '../../src/lib/exec.ts';

export type WatchedChild = {
  /** The last of both its outputs. */
  said(): string;
  isOver(): boolean;
  /** Resolves once it has ended. */
  ended: Promise<void>;
};

const kept_chars = 2000;

export function watchChild(child: ReturnType<typeof spawnChild>): WatchedChild {
  let said = '';
  let is_over = false;
  const keep = (chunk: Buffer) => {
    said = (said + chunk.toString()).slice(-kept_chars);
  };
  child.stdout?.on('data', keep);
  child.stderr?.on('data', keep);
  const ended = new Promise<void>((resolve) => {
    child.once('close', () => {
      is_over = true;
      resolve();
    });
  });
  return { said: () => said, isOver: () => is_over, ended };
}
