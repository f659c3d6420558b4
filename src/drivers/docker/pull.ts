/**
 * One try to pull an image: reads what the engine tells of it until it is there.
 *
 * Invariants: a pull that tells nothing new for a while is given up; one that is called off is
 * ended in the engine too, by closing the connection; an error may come after the status 200, and
 * is one all the same.
 */
import type { IncomingMessage } from 'node:http';
import type { Clock } from '../../lib/clock.ts';
import type { Engine } from './engine.ts';
import { EngineDown, EngineRefusal } from './engine-error.ts';
import type { PullTarget } from './image-reference.ts';

/** Who asks a registry for an image. */
export type SignIn = { registry: string; user: string; password: string };

export type OnPulled = (done_bytes: number, total_bytes: number) => void;

export type PullPatience = {
  /** Without a word of progress. */
  silence_ms: number;
  /** Before the second try, and so on; as many tries as there are numbers, and one. */
  waits_ms: readonly number[];
};

export const pull_patience: PullPatience = { silence_ms: 90_000, waits_ms: [1000, 5000] };

const line_limit = 256 * 1024;
const told_limit = 100_000;

type Line = {
  id?: string;
  status?: string;
  error?: string;
  progressDetail?: { current?: number; total?: number };
};

export async function pullOnce(
  { engine, clock, silence_ms }: { engine: Engine; clock: Clock; silence_ms: number },
  { repository, tag, sign_in }: PullTarget & { sign_in: SignIn | null },
  onProgress: OnPulled,
  signal: AbortSignal,
): Promise<void> {
  const query = { fromImage: repository, tag };
  const path = '/images/create';
  // The engine answers once the registry has told it of the image.
  const headers: Record<string, string> =
    sign_in === null ? {} : { 'x-registry-auth': authOf(sign_in) };
  const call = { method: 'POST', path, query, headers, timeout_ms: silence_ms, signal } as const;
  const answer = await engine.open(call);
  const layers = new Map<string, { done: number; total: number }>();
  const why = `the pull told nothing for ${silence_ms / 1000} s`;
  const watchdog = createWatchdog(clock, silence_ms, () =>
    answer.destroy(new EngineDown('silent', why)),
  );
  try {
    const told = new Set<string>();
    let is_done = false;
    for await (const line of linesOf(answer)) {
      if (line.error !== undefined) throw new EngineRefusal(500, line.error);
      if (isProgress(told, line)) watchdog.feed();
      is_done ||= line.status?.startsWith('Status: ') === true;
      note(layers, line, onProgress);
    }
    if (!is_done) throw new EngineDown('broken', 'the pull broke off before its end');
  } finally {
    watchdog.end();
    answer.destroy();
  }
}

/** As the engine wants it: JSON in base64 for URLs. Docker's own registry has an older name. */
function authOf({ registry, user, password }: SignIn): string {
  const serveraddress = registry === 'docker.io' ? 'https://index.docker.io/v1/' : registry;
  const text = JSON.stringify({ username: user, password, serveraddress });
  return Buffer.from(text).toString('base64url');
}

/** What was not told before. An engine that counts down to its own next try gets no further. */
function isProgress(told: Set<string>, { id, status = '', progressDetail }: Line): boolean {
  if (/^(Retrying|Waiting)/.test(status)) return false;
  const text = `${id} ${status} ${progressDetail?.current ?? ''}`;
  if (told.has(text)) return false;
  if (told.size > told_limit) told.clear();
  told.add(text);
  return true;
}

function note(
  layers: Map<string, { done: number; total: number }>,
  { id, status, progressDetail }: Line,
  onProgress: OnPulled,
): void {
  const { current, total } = progressDetail ?? {};
  if (id === undefined) return;
  if (status === 'Downloading' && typeof current === 'number') {
    layers.set(id, { done: current, total: Math.max(current, total ?? 0) });
  } else if (status === 'Download complete' || status === 'Pull complete') {
    const known = layers.get(id);
    if (known !== undefined) layers.set(id, { done: known.total, total: known.total });
  } else {
    return;
  }
  const sum = (field: 'done' | 'total') =>
    [...layers.values()].reduce((all, layer) => all + layer[field], 0);
  onProgress(sum('done'), sum('total'));
}

async function* linesOf(answer: IncomingMessage): AsyncGenerator<Line> {
  let rest = '';
  answer.setEncoding('utf8');
  for await (const chunk of answer) {
    rest += chunk;
    const lines = rest.split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > line_limit) throw new EngineDown('garbled', 'a line of a pull is too long');
    for (const line of lines) if (line.trim() !== '') yield parse(line);
  }
  if (rest.trim() !== '') yield parse(rest);
}

function parse(line: string): Line {
  try {
    return JSON.parse(line) as Line;
  } catch {
    throw new EngineDown('garbled', 'the engine told of a pull what cannot be read');
  }
}

function createWatchdog(clock: Clock, silence_ms: number, bark: () => void) {
  let off = clock.after(silence_ms, bark);
  return {
    feed() {
      off();
      off = clock.after(silence_ms, bark);
    },
    end: () => off(),
  };
}
