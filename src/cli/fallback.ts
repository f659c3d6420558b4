/**
 * `einsora fallback`: what may stand in for what a workload asks; and `einsora make-room`.
 */
import type { RoomMade } from '../contract/make-room.ts';
import type { Workload } from '../contract/workloads.ts';
import { sentenceOf } from '../core/reasons.ts';
import { reasonError, usageError } from './cli-error.ts';
import { openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import { fallbackText, takenText } from './fallback-view.ts';
import type { Context } from './io.ts';
import { fallbackSteps } from './launch-request.ts';
import { printData, printJson, say } from './output.ts';
import { onWorkload } from './workload-name.ts';

export type FallbackOptions = {
  /** Milliseconds. */
  after?: number;
  return?: boolean;
  json?: boolean;
};

/** `words`: nothing shows them, `off` takes them away, `set` with steps replaces them. */
export async function fallback(
  context: Context,
  name: string,
  words: string[],
  options: FallbackOptions,
): Promise<number> {
  const client = openClient(context);
  const body = bodyOf(context.io.cwd, words, options);
  const path = `/v1/workloads/${encodeURIComponent(name)}/fallback`;
  const workload = await onWorkload(client, name, () =>
    body === null ? client.show(name) : client.call<Workload>('PUT', path, { body }),
  );
  if (options.json) printJson(context, workload);
  else for (const line of linesOf(workload)) printData(context, line);
  return exitCode('ok');
}

function bodyOf(cwd: string, [action, ...steps]: string[], options: FallbackOptions) {
  if (action === undefined) return null;
  if (action === 'off') {
    if (steps.length > 0) throw usageError('off takes nothing more');
    return { fallback: [] };
  }
  if (action !== 'set' || steps.length === 0) {
    throw usageError('give off, or set and what may stand in: set class:NAME cpu');
  }
  return {
    fallback: fallbackSteps(cwd, steps),
    ...(options.after === undefined ? {} : { fallback_after: Math.round(options.after) }),
    ...(options.return === true ? { fallback_return: true } : {}),
  };
}

function linesOf(workload: Workload): string[] {
  const rule = fallbackText(workload);
  const taken = takenText(workload);
  const lines = [
    rule === null
      ? `${workload.name} runs as asked or waits.`
      : `${workload.name} falls back to ${rule}.`,
  ];
  return taken === null ? lines : [...lines, `Now: ${taken}.`];
}

export async function makeRoom(
  context: Context,
  name: string,
  options: { json?: boolean },
): Promise<number> {
  const client = openClient(context);
  const made = await onWorkload(client, name, () => client.makeRoom(name));
  if (made.stopped.length === 0) throw reasonError('no_room_to_make', { name }, 'refused');
  if (options.json) printJson(context, made);
  else say(context, roomMadeText(made, name));
  return exitCode('ok');
}

export function roomMadeText({ stopped }: RoomMade, name: string): string {
  if (stopped.length === 0) return sentenceOf('no_room_to_make', { name });
  const names = stopped.map((one) => one.name).join(', ');
  return `Stopped to make room for ${name}: ${names}. Whoever asks for one wakes it.`;
}
