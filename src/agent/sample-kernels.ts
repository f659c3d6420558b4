/**
 * Whether somebody does something in a notebook: asked of its own server, which knows of kernels,
 * terminals and open pages.
 *
 * Invariants: asking is no use (Jupyter is told not to count it); a moment that the server names is
 * only compared with the one before, so that nobody's clock matters; no answer is null.
 */
import type { Duplex } from 'node:stream';
import { z } from 'zod';
import { limits } from '../contract/limits.ts';
import type { Clock } from '../lib/clock.ts';
import { callEngine } from './engine-client.ts';

export type Kernels = { is_busy: boolean; last_activity: string };

const statusSchema = z.object({ last_activity: z.string() });
const kernelsSchema = z.array(z.object({ execution_state: z.string() }));

/** A kernel that computes in silence moves no moment: it says so itself. */
const at_work = new Set(['busy', 'starting', 'restarting', 'autorestarting']);

export async function lookAtKernels(
  clock: Clock,
  dial: () => Promise<Duplex>,
  token: string,
  signal: AbortSignal,
): Promise<Kernels | null> {
  const ask = async (path: string) => {
    const headers = { authorization: `token ${token}` };
    const timeout_ms = limits.sample_patience_ms;
    const reply = await callEngine(
      clock,
      dial,
      { method: 'GET', path, headers, timeout_ms },
      signal,
    );
    return reply.ok && reply.status === 200 ? reply.body : null;
  };
  const status = statusSchema.safeParse(parse(await ask('/api/status')));
  const kernels = kernelsSchema.safeParse(parse(await ask('/api/kernels?no_track_activity=1')));
  if (!status.success || !kernels.success) return null;
  return {
    is_busy: kernels.data.some(({ execution_state }) => at_work.has(execution_state)),
    last_activity: status.data.last_activity,
  };
}

function parse(text: string | null): unknown {
  if (text === null) return null;
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
