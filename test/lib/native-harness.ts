/**
 * A native driver on a temp folder, with small programs to run in it.
 *
 * Invariants: each harness has its own folder and install id, so that tests beside each other never
 * see each other's runs; `close` ends every run and removes the folder.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runName } from '../../src/core/run.ts';
import type { Driver, RunSpec } from '../../src/drivers/driver.ts';
import { createNativeDriver } from '../../src/drivers/native/native.ts';
import type { BwrapFinder } from '../../src/drivers/native/sandbox.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { type Log, silentLog } from '../../src/lib/log.ts';
import { systemRandom } from '../../src/lib/random.ts';
import { type DriverHarness, newRun } from '../contracts/driver.ts';
import { testBwrap } from './parts.ts';

export type NativeHarness = DriverHarness & {
  folder: string;
  install_id: string;
  /** A driver on the same folder with something else given to it. */
  openWith(changes: { install_id?: string; bwrap?: BwrapFinder; log?: Log }): Driver;
  /** A spec that runs `script` with the sandbox's shell. */
  shell(script: string, changes?: Partial<RunSpec>): RunSpec;
  /** What keeper.json or run.json of a run says. */
  file(spec: RunSpec, name: 'keeper.json' | 'run.json'): Record<string, unknown>;
  [Symbol.asyncDispose](): Promise<void>;
};

export function nativeHarness(): NativeHarness {
  // A long name, so that socket paths are longer than a socket address may be.
  const root = mkdtempSync(join(tmpdir(), `einsora-native-${'long-'.repeat(20)}`));
  const folder = join(root, 'runs');
  const install_id = `test-${Buffer.from(systemRandom.bytes(8)).toString('hex')}`;
  const openWith: NativeHarness['openWith'] = (changes) =>
    createNativeDriver({
      folder,
      workspaces: join(root, 'workspaces'),
      install_id,
      bwrap: testBwrap,
      clock: systemClock,
      random: systemRandom,
      log: silentLog,
      ...changes,
    });
  const driver = openWith({});
  const close = async () => {
    for (const { run } of await driver.observe()) await driver.stop(run, 'remove', 0);
    rmSync(root, { recursive: true });
  };
  return {
    driver,
    clock: systemClock,
    folder,
    install_id,
    openWith,
    reopen: () => openWith({}),
    serving: (run) => ({
      ...shellSpec(''),
      run,
      argv: [node_inside, '-e', server],
      mounts: [node],
    }),
    ending: (run) => ({ ...shellSpec("printf 'one ü two\\n'; exit 3"), run }),
    keeping: (run) => ({
      ...shellSpec(
        'if [ -e kept ]; then echo found it; else echo found nothing; fi; echo yes >kept; sleep 60',
      ),
      ...{ run, workspace: { target: '/workspace', uid: 0, gid: 0, disk_bytes: null } },
    }),
    shell: (script, changes = {}) => ({ ...shellSpec(script), ...changes }),
    file: (spec, name) => JSON.parse(readFileSync(join(folder, runName(spec.run), name), 'utf8')),
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** Every process whose command line holds `text`. */
export function processesWith(text: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => commandLine(pid).includes(text))
    .map(Number);
}

function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}

const node_inside = '/opt/node';
const node = { source: process.execPath, target: node_inside, writable: false };
const server = `
  process.on('SIGTERM', () => process.exit(0));
  console.log('serving');
  require('node:http').createServer((request, response) => response.end('ok'))
    .listen('/run/einsora/http.sock');
`;

export function shellSpec(script: string): RunSpec {
  const run = newRun();
  return {
    run,
    spec_hash: `hash-${run.workload_id}`,
    argv: ['/bin/sh', '-c', script],
    env: { PATH: '/usr/bin:/bin' },
    mounts: [],
    network: 'none',
    ports: ['http'],
    memory_bytes: 256 * 2 ** 20,
    cpu_millis: 1000,
  };
}
