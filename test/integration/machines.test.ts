/**
 * What the owner of machines does about them, with the real program, its agents and its command
 * line, on made-up machines: named, limited, emptied, used again, removed, and there again.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Machine } from '../../src/contract/machines.ts';
import type { Workload } from '../../src/contract/workloads.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { cleanUp, type Program, startProgram, temporaryFolder } from '../lib/program.ts';

const machines = [
  { name: 'one', as: 'libvirt', region: 'lab' },
  { name: 'two', as: 'libvirt', region: 'lab' },
];

async function until(program: Program, id: string, state: string): Promise<Workload> {
  let last = '';
  for (let tries = 0; tries < 300; tries += 1) {
    const { body } = await program.api<Workload>(`/v1/workloads/${id}`);
    if (body.state === state) return body;
    last = `${body.state} ${JSON.stringify(body.reason)}`;
    await systemClock.sleep(100);
  }
  throw new Error(`it was never ${state}: ${last}`);
}

async function machinesOf(program: Program): Promise<Map<string, Machine>> {
  const { stdout } = await program.cli(['machine', 'ls', '--json']);
  const { items } = JSON.parse(stdout) as { items: Machine[] };
  return new Map(items.map((machine) => [machine.name, machine]));
}

async function done(program: Program, words: string[]): Promise<string> {
  const { code, stdout, stderr } = await program.cli(['machine', ...words]);
  assert.equal(code, 0, `${words.join(' ')}: ${stderr}`);
  return stdout;
}

async function launched(program: Program, body: object): Promise<Workload> {
  const made = await program.api<Workload>('/v1/workloads', { body: { region: 'lab', ...body } });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return until(program, made.body.id, 'running');
}

test('a machine is emptied, used again, removed, and comes back as a new one', async () => {
  const data_dir = temporaryFolder();
  const file = join(data_dir, 'fleet.json');
  writeFileSync(file, JSON.stringify({ machines }));
  const args = ['--dev', '--sim-machines', file];
  let program = await startProgram({ data_dir, args });
  try {
    const lab = await launched(program, { kind: 'notebook', name: 'lab' });
    const home = lab.placement?.machine_name ?? '';
    const other = home === 'one' ? 'two' : 'one';
    await done(program, ['rename', home, 'attic']);
    await done(program, ['limits', 'attic', '--cpu', '4']);
    await done(program, ['drain', 'attic', '--stop']);
    const waits = await until(program, lab.id, 'queued');
    assert.match(waits.reason?.message ?? '', /attic is being drained/);
    const chat = { kind: 'endpoint', model: 'smollm2-135m', name: 'chat' };
    assert.equal((await launched(program, chat)).placement?.machine_name, other);

    const kept = await program.cli(['machine', 'rm', 'attic']);
    assert.match(kept.stderr, /error machine_in_use: .*lab/);
    const early = await program.cli([
      ...['machine', 'fence', 'attic', '--powered-off', '--confirm', 'attic'],
    ]);
    assert.match(early.stderr, /error machine_still_heard/);
    await done(program, ['undrain', 'attic']);
    const again = await until(program, lab.id, 'running');
    assert.equal(again.placement?.machine_name, 'attic');
    const busy = await program.cli(['machine', 'rm', 'attic', '--forget-homes']);
    assert.match(busy.stderr, /error machine_has_runs: .*lab/);

    await program.kill();
    program = await startProgram({ data_dir, args });
    const attic = (await machinesOf(program)).get('attic');
    assert.deepEqual([attic?.offered.cpu_millis, attic?.drained_at], [4000, null]);

    await program.cli(['rm', 'lab']);
    await until(program, lab.id, 'deleted');
    assert.match(await done(program, ['rm', 'attic']), /what is on its disk stays there/);
    assert.equal((await machinesOf(program)).has('attic'), false);
    await program.kill();
    program = await startProgram({ data_dir, args });
    const back = (await machinesOf(program)).get(home);
    assert.deepEqual([back?.sharing, back?.caps?.cpu_millis], ['private', null]);
  } finally {
    await cleanUp(data_dir, program);
  }
});
