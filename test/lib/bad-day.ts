/**
 * What goes wrong, prepared: a PATH with only chosen tools, a launch that is to fail, a start that
 * is to be refused.
 *
 * Invariants: nothing outside the given folders is changed; what is asked of the program is asked
 * through its command line, as a user would.
 */
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Workload, WorkloadEvent } from '../../src/contract/workloads.ts';
import { exec } from '../../src/lib/exec.ts';
import { mainFile, type Program } from './program.ts';
import { hostEnv, hostPython } from './wheel-bench.ts';

/** A folder to be the whole PATH; a tool is a link to a program, or shell text of its own. */
export function toolFolder(at: string, tools: Record<string, { link: string } | string>): string {
  mkdirSync(at, { recursive: true });
  for (const [name, tool] of Object.entries(tools)) {
    const path = join(at, name);
    if (typeof tool !== 'string') {
      symlinkSync(tool.link, path);
      continue;
    }
    writeFileSync(path, `#!/bin/sh\n${tool}\n`);
    chmodSync(path, 0o755);
  }
  return at;
}

/** Shell that is the machine's Python, after `before`. */
export function pythonTool(before = ''): string {
  return `${before}\nexec ${hostPython?.executable} "$@"`;
}

/** Package settings with which nothing can be fetched but from `folder`. */
export function onlyFrom(folder: string): Record<string, string> {
  mkdirSync(folder, { recursive: true });
  return { PIP_NO_INDEX: '1', PIP_FIND_LINKS: folder, UV_OFFLINE: '1' };
}

/** `einsora up` that has to end by itself: its exit code and what it said. */
export async function upOnce(data_dir: string, port = 0) {
  const args = ['up', '--no-open', '--port', String(port), '--data-dir', data_dir];
  const ran = await exec(
    process.execPath,
    ['--disable-warning=ExperimentalWarning', mainFile, ...args],
    { env: hostEnv, timeout_ms: 30_000 },
  );
  return { outcome: ran.outcome, code: ran.code, said: ran.stderr };
}

export type Refusal = { code: string; message: string; fix: string | null };

export type LaunchDocument = {
  outcome: string;
  error: Refusal | null;
  workload: Workload;
  key: string | null;
  plan: { machines_not_chosen: Refusal[] };
  log_tail: string[];
};

/** `einsora launch endpoint MODEL --json`: its exit code and its document. */
export async function launch(program: Program, model: string, ...args: string[]) {
  const ran = await program.cli(['launch', 'endpoint', model, '--json', ...args]);
  if (ran.stdout === '') throw new Error(`launch said nothing but:\n${ran.stderr}`);
  return { code: ran.code, document: JSON.parse(ran.stdout) as LaunchDocument };
}

export async function show(program: Program, name: string): Promise<Workload> {
  return (await program.api<Workload>(`/v1/workloads/${name}`)).body;
}

export async function events(program: Program, name: string): Promise<WorkloadEvent[]> {
  const path = `/v1/workloads/${name}/events?limit=100`;
  return (await program.api<{ items: WorkloadEvent[] }>(path)).body.items;
}

/** One question to an endpoint, as any client asks it: the status, and the answer or its error. */
export async function chatWith(asked: { program: Program; key: string; model: string }) {
  const messages = [{ role: 'user', content: 'Who runs you?' }];
  const answer = await fetch(`${asked.program.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${asked.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: asked.model, messages }),
  });
  const body = (await answer.json()) as {
    choices?: { message: { content: string } }[];
    error?: { code: string };
  };
  return { status: answer.status, said: body.choices?.[0]?.message.content ?? body.error?.code };
}
