/**
 * Secrets that people give to programs beside a run, and keep in files of a run.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { openExec } from '../../src/cli/exec-line.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { Secret } from '../../src/lib/secret.ts';
import type { Program } from './program.ts';

type Given = { argument: string; variable: string; stdin: string; content: string };

/** Gives them to a workload that runs, and reads what comes back. */
export async function giveInside(program: Program, workload: string, given: Given): Promise<void> {
  const token = readFileSync(join(program.data_dir, 'owner-token'), 'utf8').trim();
  const { argument, variable, stdin, content } = given;
  let said = '';
  const line = await openExec({
    ...{ url: program.url, token: new Secret(token), workload, clock: systemClock },
    start: {
      argv: ['sh', '-c', 'echo "$1 $GIVEN"; cat', 'sh', argument],
      env: { GIVEN: variable },
    },
    print: async (_channel, bytes) => {
      said += bytes;
    },
  });
  await line.type(Buffer.from(stdin));
  line.closeStdin();
  assert.deepEqual(await line.ended, { type: 'exit', how: 'exited', code: 0, signal: null });
  assert.equal(said, `${argument} ${variable}\n${stdin}`);
  const url = `${program.url}/v1/workloads/${workload}/files?path=/tmp/kept`;
  const headers = { authorization: `Bearer ${token}` };
  const put = await fetch(url, { method: 'PUT', headers, body: content });
  assert.equal(put.status, 204);
  assert.equal(await (await fetch(url, { headers })).text(), content);
}
