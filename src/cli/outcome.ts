/**
 * How a wait ended, said to the user: what failed and what helps, or how to come back.
 */
import type { Workload } from '../contract/workloads.ts';
import { plainText } from '../lib/text.ts';
import type { AttachOutcome, Ended } from './attach.ts';
import { CliError, fixHere, suggested } from './cli-error.ts';
import type { Client } from './client.ts';
import type { ExitName } from './exit-codes.ts';
import type { Context } from './io.ts';
import { oneLine, say, tint } from './output.ts';

const tail_bytes = 4096;
const tail_lines = 10;

export const exitOfEnd = {
  running: 'ok',
  failed: 'workload_failed',
  stopped: 'failed',
  deleted: 'failed',
  interrupted: 'interrupted',
  timed_out: 'failed',
} as const satisfies Record<Ended, ExitName>;

/** The failure of a workload that did not come to run, or null where it runs or was left. */
export function failureOf(outcome: AttachOutcome): CliError | null {
  const { workload, ended } = outcome;
  if (ended === 'running' || ended === 'interrupted') return null;
  const exit = exitOfEnd[ended];
  const { name, reason, state } = workload;
  if (ended === 'failed' && reason !== null) return new CliError({ ...reason, exit });
  if (ended === 'timed_out') {
    const message = `${name} is still ${state}: it goes on without this command.`;
    return new CliError({ code: 'timed_out', message, fix: `bin/einsora events ${name} -f`, exit });
  }
  const message = ended === 'failed' ? `${name} failed.` : `${name} was ${ended} meanwhile.`;
  return new CliError({ code: ended, message, fix: `bin/einsora events ${name}`, exit });
}

/** Says on stderr how it ended, if not by running. */
export function sayOutcome(context: Context, outcome: AttachOutcome, log_tail: string[]): void {
  const { workload, ended } = outcome;
  if (ended === 'interrupted') sayDetached(context, workload);
  const failure = failureOf(outcome);
  if (failure === null) return;
  const mark = tint(context, context.io.stderr, 'red', '✘');
  say(context, `${mark} ${oneLine(failure.message)}`);
  const fix = fixHere(context.config, failure.fix);
  if (fix !== null) say(context, `  fix: ${oneLine(fix)}`);
  if (log_tail.length === 0) return;
  say(context, '  its last output:');
  for (const line of log_tail) say(context, `    ${line}`);
}

/** The last lines that a workload printed; none where they cannot be had. */
export async function readTail(client: Client, workload: Workload): Promise<string[]> {
  try {
    const { text } = await client.logs(workload.id, -tail_bytes);
    return plainText(text)
      .split('\n')
      .filter((line) => line.trim() !== '')
      .slice(-tail_lines);
  } catch {
    return [];
  }
}

export function sayDetached(context: Context, workload: Workload): void {
  const { config } = context;
  say(context, `Detached: ${workload.name} goes on.`);
  say(context, `  follow it: ${suggested(config, `events ${workload.name} -f`)}`);
  say(context, `  stop it:   ${suggested(config, `stop ${workload.name}`)}`);
}
