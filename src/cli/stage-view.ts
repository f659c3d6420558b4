/**
 * The stages of a launch as lines: a pure step from what was shown to what is new.
 *
 * Invariants: each change of a stage or of the wait gives one line, whatever the number of polls;
 * a total that nobody knows is said, never guessed; a new run starts its stages afresh.
 */
import type { Stage, Workload } from '../contract/workloads.ts';
import { formatBytes, formatDuration } from '../core/format.ts';
import { oneLine } from './output.ts';

export type Mark = 'done' | 'running' | 'failed' | 'note';
export type StageLine = { mark: Mark; text: string };

/** What was shown so far. */
export type Shown = { run_epoch: number; stages: Record<string, Stage['state']>; note: string };

export const nothingShown: Shown = { run_epoch: 0, stages: {}, note: '' };

export type Step = {
  shown: Shown;
  /** New lines that stay. */
  lines: StageLine[];
  /** The line of what goes on right now, or null. */
  live: StageLine | null;
};

/** From one look at the workload to the next. */
export function nextStep(before: Shown, workload: Workload): Step {
  const run_epoch = workload.placement?.run_epoch ?? before.run_epoch;
  const stages = run_epoch === before.run_epoch ? { ...before.stages } : {};
  const lines: StageLine[] = [];
  const note = noteOf(workload);
  if (note !== before.note && note !== '') lines.push({ mark: 'note', text: note });
  let live: StageLine | null = null;
  for (const stage of workload.stages) {
    const line = { mark: stage.state, text: stageText(stage) };
    if (stage.state === 'running') live = line;
    if (stages[stage.name] === stage.state) continue;
    stages[stage.name] = stage.state;
    lines.push(line);
  }
  return { shown: { run_epoch, stages, note }, lines, live };
}

/** One stage: `engine    12.4 s`, `model     41.2 MB of 92.9 MB`. */
export function stageText(stage: Stage): string {
  const parts: string[] = [];
  if (stage.state !== 'running') parts.push(formatDuration(stage.duration_ms).padEnd(7));
  if (stage.done_bytes !== null) parts.push(bytesText(stage));
  if (stage.note !== null) parts.push(oneLine(stage.note));
  return `${stage.name.padEnd(8)}  ${parts.join('  ')}`.trimEnd();
}

function bytesText(stage: Stage): string {
  const done = formatBytes(stage.done_bytes ?? 0);
  if (stage.total_bytes !== null) return `${done} of ${formatBytes(stage.total_bytes)}`;
  return stage.state === 'running' ? `${done}, total unknown` : done;
}

/** Why nothing moves, where nothing does. */
function noteOf(workload: Workload): string {
  const { state, reason, queue_place, heard_of, placement } = workload;
  const why = reason === null ? '' : oneLine(reason.message);
  if (state === 'queued') {
    const place = queue_place === null ? '' : `, place ${queue_place}`;
    return `queued${place}${why === '' ? '' : `: ${why}`}`;
  }
  if (state === 'pending') return why;
  if (state === 'stopping') return 'stopping first: the run before must be gone';
  if (placement !== null && !heard_of) {
    return `${oneLine(placement.machine_name)} has not been heard of lately; waiting for it`;
  }
  return '';
}
