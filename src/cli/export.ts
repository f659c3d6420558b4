/**
 * `einsora export`: everything recorded about a workload, as one JSON file without its secrets.
 *
 * Invariants: what is written are the bytes that the control plane made: canonical JSON.
 */
import { resolve } from 'node:path';
import type { WorkloadExport } from '../contract/export.ts';
import { canonicalJson } from '../core/canonical-json.ts';
import { writeDurably } from '../lib/files.ts';
import { CliError } from './cli-error.ts';
import { openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { printData, say } from './output.ts';
import { onWorkload } from './workload-name.ts';

export type ExportOptions = { output?: string };

export async function exportWorkload(
  context: Context,
  name: string,
  options: ExportOptions,
): Promise<number> {
  const client = openClient(context);
  const path = `/v1/workloads/${encodeURIComponent(name)}/export`;
  const made = await onWorkload(client, name, () => client.call<WorkloadExport>('GET', path));
  const text = canonicalJson(made);
  if (options.output === undefined) printData(context, text);
  else write(resolve(context.io.cwd, options.output), text);
  const where = options.output === undefined ? '' : `${options.output}: `;
  say(context, `${where}${contents(made)}`);
  for (const [section, count] of Object.entries(made.left_out)) {
    say(context, `Too large for one file: the last ${count} of ${section} are missing.`);
  }
  return exitCode('ok');
}

function write(path: string, text: string): void {
  try {
    writeDurably(path, text);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const fix = 'give another file: bin/einsora export <workload> -o FILE';
    throw new CliError({
      ...{ code: 'file_unwritable', message: `It could not be written: ${why}.`, fix },
      exit: 'failed',
    });
  }
}

function contents(made: WorkloadExport): string {
  const parts = [
    counted(made.events.length, 'event'),
    counted(made.runs.length, 'run'),
    counted(made.activity.length, 'action'),
  ];
  const { length } = made.redactions;
  const taken =
    length === 0 ? 'nothing was redacted' : `${counted(length, 'redaction')}, each listed`;
  return `${parts.join(', ')}; ${taken}`;
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
