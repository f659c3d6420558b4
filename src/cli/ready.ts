/**
 * What a user needs to call an endpoint: address, key, and a line to paste.
 */
import type { Workload } from '../contract/workloads.ts';
import { shellWord, suggested } from './cli-error.ts';
import type { Context } from './io.ts';
import { printData } from './output.ts';
import { chatUrl } from './workload-name.ts';

/** A command that works by copy and paste in any POSIX shell. */
export function curlCommand(workload: Workload, key: string): string | null {
  if (workload.url === null) return null;
  const body = JSON.stringify({
    model: workload.name,
    messages: [{ role: 'user', content: 'Say hello.' }],
  });
  return [
    `curl ${shellWord(chatUrl(workload.url))}`,
    `  -H ${shellWord(`Authorization: Bearer ${key}`)}`,
    `  -H 'Content-Type: application/json'`,
    `  -d ${shellWord(body)}`,
  ].join(' \\\n');
}

/** Prints how to use an endpoint that runs. `key` is null where none was made just now. */
export function printReady(context: Context, workload: Workload, key: string | null): void {
  if (workload.url !== null) printData(context, `url  ${workload.url}`);
  if (key !== null) printData(context, `key  ${key}   (shown this once)`);
  const curl = key === null ? null : curlCommand(workload, key);
  if (curl !== null) printData(context, `\n${curl}\n`);
  if (workload.kind === 'endpoint') {
    printData(context, `chat ${suggested(context.config, `chat ${workload.name}`)}`);
  }
}
