/**
 * A notebook on the machine itself, for real: the program, its sandbox, JupyterLab, a kernel.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Workload, WorkloadEvent } from '../../src/contract/workloads.ts';
import { createRunTokens } from '../../src/controlplane/run-tokens.ts';
import { connectToPort } from '../../src/drivers/native/socket.ts';
import { Secret } from '../../src/lib/secret.ts';
import { type Jupyter, jupyterClient } from '../lib/jupyter-client.ts';
import { needs } from '../lib/parts.ts';
import { cleanUp, type Program, startProgram, temporaryFolder, until } from '../lib/program.ts';

const real = needs('python', 'bwrap', 'cgroup');
const secret_value = 'a-value-that-nobody-is-shown';

test(
  'a notebook: a cell runs, files stay over stop, start and a restart, and go with rm',
  real,
  async () => {
    const data_dir = temporaryFolder();
    let program = await startProgram({ data_dir });
    try {
      await program.api('/v1/secrets/my-token', { method: 'PUT', body: { value: secret_value } });
      const launched = await program.cli(
        ['launch', 'notebook', '--name', 'lab', '--env', 'TOKEN=secret:my-token', '--env', 'A=b c'],
        240_000,
      );
      assert.equal(launched.code, 0, launched.stderr);
      assert.match(launched.stdout, /open bin\/einsora open lab/);
      const { id } = await show(program);

      const cell = [
        'import os, getpass',
        'open("kept.txt", "w").write("from the first run")',
        'print(os.getcwd(), os.environ["A"], os.environ["TOKEN"], getpass.getuser())',
      ].join('\n');
      const printed = await clientOf(data_dir, id, 1).runCell(cell);
      assert.equal(printed, `/workspace b c ${secret_value} einsora\n`);
      await assertUnseen(program, data_dir, id);

      const own = [
        'import os, site, sys',
        'folder = site.getusersitepackages()',
        'open(os.path.join(folder, "mine.py"), "w").write("word = \\"installed\\"")',
        'import mine; print(mine.word, folder.startswith("/workspace/"))',
      ].join('\n');
      const imported = await clientOf(data_dir, id, 1).runCell(own);
      assert.equal(imported, 'installed True\n', 'what a cell installs, the same kernel imports');

      assert.equal((await program.cli(['stop', 'lab'])).code, 0);
      assert.ok(existsSync(join(data_dir, 'workspaces', id, 'kept.txt')));
      assert.equal((await program.cli(['start', 'lab'])).code, 0);
      const second = clientOf(data_dir, id, 2);
      assert.equal(await second.runCell('print(open("kept.txt").read())'), 'from the first run\n');
      const first_token = clientOf(data_dir, id, 2, 1).call('GET', '/api/status');
      assert.equal((await first_token).status, 403, 'a token is of one run');

      await program.interrupt();
      program = await startProgram({ data_dir });
      const adopted = await show(program);
      assert.deepEqual([adopted.state, adopted.placement?.run_epoch], ['running', 2]);
      assert.equal(await second.runCell('print(1 + 1)'), '2\n', 'the same run goes on');

      assert.equal((await program.cli(['rm', 'lab'])).code, 0);
      assert.deepEqual(readdirSync(join(data_dir, 'workspaces')), []);
    } finally {
      await cleanUp(data_dir, program);
    }
  },
);

test(
  'a kernel that is ended for lack of memory is a note, and the notebook goes on',
  real,
  async () => {
    const data_dir = temporaryFolder();
    const program = await startProgram({ data_dir });
    try {
      const launched = await program.cli(['launch', 'notebook', '--name', 'lab'], 240_000);
      assert.equal(launched.code, 0, launched.stderr);
      const { id } = await show(program);
      const lab = clientOf(data_dir, id, 1);
      const greedy = 'x = bytearray(4 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1';
      void lab.runCell(greedy).catch(() => {});
      let notes: WorkloadEvent[] = [];
      await until(
        async () => {
          const { body } = await program.api<{ items: WorkloadEvent[] }>(
            '/v1/workloads/lab/events?limit=200',
          );
          notes = body.items.filter(({ kind }) => kind === 'note');
          return notes.length > 0;
        },
        60_000,
        () => 'no note came',
      );
      assert.equal(notes[0]?.code, 'memory_kill');
      assert.match(notes[0]?.message ?? '', /ended for lack of memory .* has 2 GiB/);
      assert.equal((await show(program)).state, 'running');
      assert.equal(await lab.runCell('print("still here")'), 'still here\n');
    } finally {
      await cleanUp(data_dir, program);
    }
  },
);

async function show(program: Program): Promise<Workload> {
  return (await program.api<Workload>('/v1/workloads/lab')).body;
}

/** A client by the run's own socket, with the token of that run or of another one. */
function clientOf(data_dir: string, id: string, epoch: number, token_of = epoch): Jupyter {
  const run = { workload_id: id, replica: 0, run_epoch: token_of };
  const key = readFileSync(join(data_dir, 'deployment-key'), 'utf8').trim();
  const token = createRunTokens({ key_id: '', key: new Secret(key) })
    .siteToken(run)
    .reveal();
  const folder = join(data_dir, 'runs', `${id}.0.${epoch}`, 'p');
  return jupyterClient(() => connectToPort(folder, 'web'), token);
}

/** Neither the secret nor the site's token stands in any file or answer but the store's sealed row. */
async function assertUnseen(program: Program, data_dir: string, id: string): Promise<void> {
  const run = { workload_id: id, replica: 0, run_epoch: 1 };
  const key = readFileSync(join(data_dir, 'deployment-key'), 'utf8').trim();
  const token = createRunTokens({ key_id: '', key: new Secret(key) })
    .siteToken(run)
    .reveal();
  const shown = await program.cli(['show', 'lab', '--json']);
  const { env } = JSON.parse(shown.stdout) as Workload;
  assert.deepEqual(env, { A: 'REDACTED', TOKEN: { secret: 'my-token' } });
  const exported = await program.cli(['export', 'lab']);
  assert.match(exported.stdout, /"rule":"field\.env"/);
  const texts = [shown.stdout, exported.stdout];
  for (const path of filesBelow(data_dir)) texts.push(readFileSync(path, 'latin1'));
  for (const text of texts) {
    assert.ok(!text.includes(secret_value), 'the secret is nowhere');
    assert.ok(!text.includes(token), 'nor is the token');
  }
}

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}
