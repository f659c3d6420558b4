/**
 * `einsora up --dev --sim-machines FILE`: a fleet of made-up machines behind the real program.
 */
import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Workload } from '../../src/contract/workloads.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { exec } from '../../src/lib/exec.ts';
import { cleanUp, mainFile, type Program, startProgram, temporaryFolder } from '../lib/program.ts';

const machines = [
  { name: 'rack', as: 'libvirt', owner: 'acme', sharing: 'community', region: 'lab', cpus: 16 },
  { name: 'flaky', region: 'home', plans: [{ start_error: 'start_failed' }] },
];

function fleetFile(folder: string, told: unknown = { machines }): string {
  const path = join(folder, 'fleet.json');
  writeFileSync(path, typeof told === 'string' ? told : JSON.stringify(told));
  return path;
}

async function running(program: Program, id: string): Promise<Workload> {
  let last = '';
  for (let tries = 0; tries < 300; tries += 1) {
    const { body } = await program.api<Workload>(`/v1/workloads/${id}`);
    if (body.state === 'running') return body;
    last = `${body.state} ${JSON.stringify(body.reason)}`;
    if (body.state === 'failed') break;
    await systemClock.sleep(100);
  }
  throw new Error(`it never ran: ${last}`);
}

test('a fleet of made-up machines is listed, runs workloads, and is adopted after a restart', async () => {
  const data_dir = temporaryFolder();
  const args = ['--dev', '--sim-machines', fleetFile(data_dir)];
  let program = await startProgram({ data_dir, args });
  try {
    assert.match(program.said(), /2 machines are made up/);
    const listed = await program.cli(['machines', '--json']);
    const names = (JSON.parse(listed.stdout).items as { name: string; owner: string }[]).map(
      ({ name, owner }) => `${name} of ${owner}`,
    );
    assert.ok(names.includes('rack of acme'), names.join(', '));
    const asked = { kind: 'endpoint', model: 'smollm2-135m', gpu_class: 'cpu-1c-2g' };
    const launch = async (name: string, region: string) => {
      const body = { ...asked, name, region };
      const made = await program.api<Workload>('/v1/workloads', { body });
      assert.equal(made.status, 201, JSON.stringify(made.body));
      return running(program, made.body.id);
    };
    const there = await launch('far', 'lab');
    assert.equal(there.placement?.machine_name, 'rack');
    assert.equal(there.placement?.isolation, 'strong');
    assert.equal(there.placement?.isolation_tier, 'untrusted');
    assert.match(there.host_sees ?? '', /^nothing runs here.*as libvirt: its disk image/);
    const tried = await launch('near', 'home');
    assert.equal(tried.restarts, 1);

    await program.kill();
    program = await startProgram({ data_dir, args });
    const still = await running(program, there.id);
    assert.equal(still.placement?.run_epoch, there.placement?.run_epoch);
  } finally {
    await cleanUp(data_dir, program);
  }
});

test('without dev mode nothing is made up, and a file with a wrong word is refused', async () => {
  const data_dir = temporaryFolder();
  const up = (more: string[]) =>
    exec(
      process.execPath,
      [
        ...['--disable-warning=ExperimentalWarning', mainFile, 'up', '--no-open', '--port', '0'],
        ...['--data-dir', data_dir, ...more],
      ],
      { env: {}, timeout_ms: 60_000 },
    );
  try {
    const plain = await up(['--sim-machines', fleetFile(data_dir)]);
    assert.match(plain.stderr, /it needs --dev/);
    for (const [told, why] of [
      ['{', /JSON/],
      [{ machines: [{ name: 'rack', isolation: 'strong' }] }, /machines\.0: .*isolation/],
      [{ machines: [{ name: 'rack' }, { name: 'rack' }] }, /two machines have one name/],
      [{ machines: [{ name: 'rack', plan: { start_error: 'nonsense' } }] }, /nonsense/],
    ] as const) {
      const refused = await up(['--dev', '--sim-machines', fleetFile(data_dir, told)]);
      assert.match(refused.stderr, why);
      assert.match(refused.stderr, /sim_machines_wrong/);
    }
  } finally {
    rmSync(data_dir, { recursive: true, force: true });
  }
});
