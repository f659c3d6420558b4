/**
 * `einsora up`: the whole of Solo in one process, until Ctrl-C.
 *
 * Invariants: it serves before it looks around, so that the page is there at once; Ctrl-C stops the
 * control plane and says which workloads go on; a second Ctrl-C ends the process at once; a store
 * that can no longer be trusted ends it too, so that no answer is given that may be untrue.
 */

import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { SimMachine } from '../contract/sim-machines.ts';
import { systemClock } from '../lib/clock.ts';
import { makePrivateFolder, writeDurably } from '../lib/files.ts';
import { type Log, openLog } from '../lib/log.ts';
import { systemRandom } from '../lib/random.ts';
import { forgetPage, page_file_ms } from './browser.ts';
import { reasonError, usageError } from './cli-error.ts';
import type { Config } from './config.ts';
import { packageEnv, sourceSettings } from './config.ts';
import { exitCode } from './exit-codes.ts';
import { type Io, processIo } from './io.ts';
import { programVersion } from './version.ts';

export type UpOptions = {
  port?: number;
  open: boolean;
  offerCpu?: number;
  offerMemory?: number;
  allowLan?: boolean;
  dev?: boolean;
  simMachines?: string;
  newDeploymentKey?: boolean;
};

const default_port = 4600;

export async function up(
  options: UpOptions,
  config: Config,
  io: Io = processIo(),
): Promise<number> {
  const made_up = await madeUpIn(options, config);
  const { startSystem } = await import('../controlplane/system.ts');
  const { data_dir } = config;
  keepToOneself(data_dir);
  const [log_path, kept] = [join(data_dir, 'einsora.log'), copiesIn(data_dir)];
  const system = await startSystem({
    data_dir,
    database_url: config.database_url,
    cache_dir: config.cache_dir,
    port: options.port ?? default_port,
    offer: {
      cpu_millis: options.offerCpu === undefined ? null : Math.round(options.offerCpu * 1000),
      memory_bytes: options.offerMemory ?? null,
    },
    allow_lan: options.allowLan === true,
    docker_host: config.docker_host,
    env: packageEnv(),
    ...made_up,
    new_deployment_key: options.newDeploymentKey === true,
    sources: sourcesOf(),
    clock: systemClock,
    random: systemRandom,
    log: logIn(log_path, config.log_level),
  });
  const place = join(data_dir, 'control-plane.json');
  const { url } = system;
  const facts = { url, pid: process.pid, version: programVersion() };
  const announce = async () => {
    writeDurably(place, JSON.stringify(facts));
    return system.signInLink();
  };
  const link = await announce().catch(async (error) => {
    await system.stop();
    const { storeRefusal } = await import('../controlplane/store-refusal.ts');
    throw storeRefusal(error, data_dir) ?? error;
  });
  const say = (line: string) => io.stderr.write(`${line}\n`);
  io.stdout.write(`Einsora serves at ${url}\n`);
  say(`  sign in   ${link}`);
  say(`  data      ${data_dir}   log ${log_path}`);
  if (system.database !== null) say(`  store     ${system.database}`);
  const copies = copiesIn(data_dir).filter((name) => !kept.includes(name));
  for (const copy of copies) say(`  upgraded  the store; as it was before: ${copy}`);
  for (const line of madeUpLines(made_up)) say(line);
  if (!system.ipv6) say('  note      this machine has no IPv6; only 127.0.0.1 is served');
  const opened = options.open && (await io.openPage(link, data_dir));
  const keepPage = opened ? systemClock.after(page_file_ms, () => forgetPage(data_dir)) : () => {};
  say(opened ? '  browser   opened' : '  browser   open the sign-in link above (it works once)');
  void system.agent.known.then(() => {
    say('  ready     in a second terminal: bin/einsora launch endpoint smollm2-135m');
    say('Ctrl-C stops the control plane; workloads go on.');
  });
  const why = await untilStopped(system.failed);
  keepPage();
  forgetPage(data_dir);
  if (why === 'failed') {
    say('The store can no longer be written safely; ending. See the log, then: bin/einsora up');
    process.exit(exitCode('failed')); // at once: whatever is still held open must not answer
  }
  const going_on = await system.runningNames();
  await system.stop();
  rmSync(place, { force: true });
  say(`\nThe control plane has stopped. ${goingOn(going_on)}`);
  return exitCode('ok');
}

function logIn(destination: string, level: string): Log {
  const log = openLog({ level, destination, clock: systemClock });
  // Also where an error that nobody caught ends it.
  process.on('exit', log.flush);
  return log;
}

/** What upgrades of the store left: each keeps it as it was before. */
function copiesIn(data_dir: string): string[] {
  const names = readdirSync(data_dir).filter((name) => /^einsora\..+\.before-\d+$/.test(name));
  return names.map((name) => join(data_dir, name));
}

type MadeUp = { dev: boolean; sim_machines: readonly SimMachine[] };

async function madeUpIn({ dev, simMachines }: UpOptions, config: Config): Promise<MadeUp> {
  const is_dev = dev === true || config.dev;
  if (simMachines === undefined) return { dev: is_dev, sim_machines: [] };
  if (!is_dev) {
    throw usageError('--sim-machines makes machines up: it needs --dev, or EINSORA_DEV=1');
  }
  const { readSimMachines } = await import('../controlplane/sim-machines.ts');
  return { dev: true, sim_machines: readSimMachines(simMachines) };
}

/** Said at each start: what is made up must not be taken for a machine. */
function madeUpLines({ sim_machines: { length } }: MadeUp): string[] {
  if (length === 0) return [];
  const machines = length === 1 ? '1 machine is' : `${length} machines are`;
  return [`  dev mode  ${machines} made up (sim): what is placed there only pretends to run`];
}

function sourcesOf() {
  const { hub_url, trusted_origins, problem } = sourceSettings();
  if (problem !== null) throw usageError(`EINSORA_HUB_URL or EINSORA_MODEL_ORIGINS: ${problem}`);
  return { hub_url, trusted_origins };
}

/** Before anything is written there: the log would make the folder readable for everybody. */
function keepToOneself(data_dir: string): void {
  try {
    makePrivateFolder(data_dir);
    forgetPage(data_dir);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw reasonError('data_dir_unwritable', { data_dir, why }, 'failed');
  }
}

function untilStopped(failed: Promise<unknown>): Promise<'asked' | 'failed'> {
  return new Promise((resolve) => {
    let asked = 0;
    const onSignal = () => {
      asked += 1;
      if (asked > 1) process.exit(exitCode('interrupted'));
      resolve('asked');
    };
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal);
    void failed.then(() => resolve('failed'));
  });
}

function goingOn(names: string[]): string {
  if (names.length === 0) return 'No workload is running.';
  const list = names.slice(0, 10).join(', ');
  return `Still running: ${list}${names.length > 10 ? ', …' : ''}. Come back with: bin/einsora up`;
}
