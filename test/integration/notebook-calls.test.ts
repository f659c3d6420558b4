/**
 * A cell of a notebook calls an endpoint of its owner: on the machine itself, and in a fenced
 * container through the relay; with the key of its run, which opens nothing else and ends with it.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Workload } from '../../src/contract/workloads.ts';
import { createRunTokens } from '../../src/controlplane/run-tokens.ts';
import { createEngine } from '../../src/drivers/docker/engine.ts';
import { connectToPort } from '../../src/drivers/native/socket.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { Secret } from '../../src/lib/secret.ts';
import { commandLineOf, createCanaries } from '../lib/canary.ts';
import { jupyterImage } from '../lib/docker-catalog.ts';
import { jupyterClient } from '../lib/jupyter-client.ts';
import { docker_socket, needs } from '../lib/parts.ts';
import { cleanUp, type Program, startProgram, temporaryFolder } from '../lib/program.ts';

const model = 'smollm2-135m';
const native = needs('python', 'bwrap', 'cgroup', 'llama', 'smollm2');
const contained = {
  ...needs('docker', 'nft', 'debootstrap', 'llama', 'smollm2'),
  timeout: 600_000,
};

/** What a cell of the user's would do, and what one of somebody else's would try. */
const cell = `
import json, os, socket, urllib.error, urllib.request
base, key = os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"]
root = base.removesuffix("/v1")
def ask(url, body=None, key=key):
    data = None if body is None else json.dumps(body).encode()
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=30) as got:
            return [got.status, got.read().decode()]
    except urllib.error.HTTPError as error:
        return [error.code, error.read().decode()]
    except OSError as error:
        return [0, str(error)]
hello = {"model": "${model}", "max_tokens": 4, "messages": [{"role": "user", "content": "Hello"}]}
print(json.dumps({
    "base": base,
    "models": ask(base + "/models"),
    "whole": ask(base + "/chat/completions", hello),
    "streamed": ask(base + "/chat/completions", {**hello, "stream": True}),
    "other": ask(base + "/chat/completions", {**hello, "model": "of-somebody-else"}),
    "workloads": ask(base + "/workloads"),
    "health": ask(root + "/healthz"),
    "wrong": ask(base + "/models", key="ept_" + "0" * 36),
}))
`;

type Got = Record<string, [status: number, text: string]> & { base: string };

test('a notebook on the machine itself calls an endpoint of its owner', native, async () => {
  await story([], 'runs', (got, program) => {
    assert.equal(got.base, `${program.url}/v1`);
    // This is the control plane's own listener: the key is no proof of the API.
    assert.equal(got.workloads?.[0], 401);
  });
});

test('a notebook in a fenced container calls an endpoint of its owner', contained, async () => {
  const image = await jupyterImage(createEngine(docker_socket, systemClock));
  await story(['--image', image], 'containers', (got) => {
    assert.match(got.base, /^http:\/\/[\d.]+:4610\/v1$/);
    for (const path of ['workloads', 'health']) {
      assert.equal(got[path]?.[0], 404, path);
      assert.match(got[path]?.[1] ?? '', /Only the paths of inference/);
    }
  });
});

async function story(
  args: string[],
  folder: string,
  check: (got: Got, program: Program) => void,
): Promise<void> {
  const data_dir = temporaryFolder();
  const program = await startProgram({ data_dir });
  try {
    const launch = async (...words: string[]) => {
      const launched = await program.cli(['launch', ...words], 280_000);
      assert.equal(launched.code, 0, launched.stderr);
    };
    await launch('endpoint', model);
    await launch('notebook', '--name', 'lab', ...args);
    const { id } = (await program.api<Workload>('/v1/workloads/lab')).body;
    const got = JSON.parse(await runCell(data_dir, folder, id, 1)) as Got;
    assert.deepEqual(
      JSON.parse(got.models?.[1] ?? '').data.map((one: { id: string }) => one.id),
      [model],
    );
    assert.equal(got.whole?.[0], 200, got.whole?.[1]);
    assert.ok(JSON.parse(got.whole?.[1] ?? '').usage.completion_tokens > 0);
    assert.match(got.streamed?.[1] ?? '', /data: \[DONE\]/);
    assert.equal(got.other?.[0], 404);
    assert.match(got.other?.[1] ?? '', /model_not_found/);
    assert.equal(got.wrong?.[0], 401);
    check(got, program);

    const key = keyOf(data_dir, id, 1);
    assert.equal(await statusOf(program, key), 200);
    await assertUnseen(program, key);
    assert.equal((await program.cli(['stop', 'lab'])).code, 0);
    assert.equal(await statusOf(program, key), 401, 'a stop ends it');
    assert.equal((await program.cli(['start', 'lab'], 120_000)).code, 0);
    assert.equal(await statusOf(program, key), 401, 'it was the key of the first run');
    assert.equal(await statusOf(program, keyOf(data_dir, id, 2)), 200);
    const again = JSON.parse(await runCell(data_dir, folder, id, 2)) as Got;
    assert.equal(again.whole?.[0], 200);
    assert.equal((await program.cli(['rm', 'lab'])).code, 0);
    assert.equal(await statusOf(program, keyOf(data_dir, id, 2)), 401);
  } finally {
    await cleanUp(data_dir, program);
  }
}

async function statusOf(program: Program, key: string): Promise<number> {
  const headers = { authorization: `Bearer ${key}` };
  const answer = await fetch(`${program.url}/v1/models`, { headers });
  await answer.body?.cancel();
  return answer.status;
}

function tokensOf(data_dir: string) {
  const key = readFileSync(join(data_dir, 'deployment-key'), 'utf8').trim();
  return createRunTokens({ key_id: '', key: new Secret(key) });
}

function keyOf(data_dir: string, workload_id: string, run_epoch: number): string {
  return tokensOf(data_dir).gatewayKey({ workload_id, replica: 0, run_epoch }).reveal();
}

async function runCell(data_dir: string, folder: string, workload_id: string, run_epoch: number) {
  const token = tokensOf(data_dir).siteToken({ workload_id, replica: 0, run_epoch }).reveal();
  const sockets = join(data_dir, folder, `${workload_id}.0.${run_epoch}`, 'p');
  return jupyterClient(() => connectToPort(sockets, 'web'), token).runCell(cell);
}

/** In no file, no arguments of any process, and nothing that is shown: the store has its hash. */
async function assertUnseen(program: Program, key: string): Promise<void> {
  const canaries = createCanaries();
  canaries.add('key of a run', key);
  const shown = [];
  for (const words of [
    ['show', 'lab', '--json'],
    ['export', 'lab'],
    ['events', 'lab'],
    ['logs', 'lab'],
  ]) {
    const { stdout, stderr } = await program.cli(words);
    shown.push(...canaries.inText(words.join(' '), stdout + stderr));
  }
  const { body } = await program.api<{ items: Workload[] }>('/v1/workloads');
  for (const { id } of body.items) {
    const keys = await program.api<{ items: unknown[] }>(`/v1/workloads/${id}/keys`);
    shown.push(...canaries.inText('keys', JSON.stringify(keys.body)));
  }
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  const lines = pids.flatMap((pid) =>
    canaries.inText(`process ${pid}`, commandLineOf(Number(pid))),
  );
  assert.deepEqual([...shown, ...lines, ...canaries.inFiles(program.data_dir)], []);
}
