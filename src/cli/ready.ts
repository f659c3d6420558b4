/**
 * What a user needs to use a workload: address, key, lines to paste.
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

/** What to do with one that runs. */
function waysIn(kind: Workload['kind']): [what: string, command: string][] {
  if (kind === 'endpoint') return [['chat', 'chat']];
  const inside: [string, string][] = [
    ['exec', 'exec'],
    ['ssh ', 'ssh'],
  ];
  return kind === 'notebook' ? [['open', 'open'], ...inside] : kind === 'instance' ? inside : [];
}

/** Prints how to use what runs. `key` is null where none was made just now. */
export function printReady(context: Context, workload: Workload, key: string | null): void {
  if (workload.url !== null) printData(context, `url  ${workload.url}`);
  if (key !== null) printData(context, `key  ${key}   (shown this once)`);
  const curl = key === null ? null : curlCommand(workload, key);
  if (curl !== null) printData(context, `\n${curl}\n`);
  const { name } = workload;
  for (const [what, command] of waysIn(workload.kind)) {
    printData(context, `${what} ${suggested(context.config, `${command} ${name}`)}`);
  }
}
