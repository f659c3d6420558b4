/**
 * A Docker Engine of a test's own, beside the machine's: to be restarted, killed and held up.
 *
 * Invariants: it has its own data, socket and bridge, and leaves the machine's packet filter alone;
 * when it is disposed of, neither it nor anything that it started is left.
 */
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createEngine } from '../../src/drivers/docker/engine.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { exec, spawnChild } from '../../src/lib/exec.ts';
import { systemRandom } from '../../src/lib/random.ts';

export type OwnDockerd = {
  socket_path: string;
  pid(): number;
  start(): Promise<void>;
  /** SIGTERM, as at a restart of the service; resolves when it is gone. */
  stop(): Promise<void>;
  kill(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
};

const start_patience_ms = 40_000;

/** `disk_mib`: its data is on a disk of this size. */
export async function ownDockerd(options: {
  live_restore: boolean;
  disk_mib?: number;
}): Promise<OwnDockerd> {
  const { folder, at, bridge, args } = await makePlace(options);
  const socket_path = at('sock');
  let child: ReturnType<typeof spawnChild> | null = null;
  let said = '';

  async function start(): Promise<void> {
    // What a killed one left makes the next one wait for a containerd that is gone.
    for (const stale of ['exec/containerd/containerd.pid', 'pid'])
      rmSync(at(stale), { force: true });
    const env = { PATH: process.env.PATH ?? '' };
    const started = spawnChild('dockerd', args, { env });
    child = started;
    const keep = (chunk: Buffer) => {
      said = (said + chunk.toString()).slice(-4000);
    };
    started.stdout?.on('data', keep);
    started.stderr?.on('data', keep);
    const deadline = systemClock.monotonic() + start_patience_ms;
    while (!(await answers(socket_path))) {
      if (started.exitCode !== null || systemClock.monotonic() > deadline) {
        throw new Error(`dockerd does not come up:\n${said}`);
      }
      await systemClock.sleep(20);
    }
  }

  async function end(signal: NodeJS.Signals): Promise<void> {
    const running = child;
    child = null;
    if (running === null || running.exitCode !== null || running.signalCode !== null) return;
    running.kill(signal);
    await once(running, 'exit');
  }

  const daemon: OwnDockerd = {
    socket_path,
    pid: () => child?.pid ?? 0,
    start,
    stop: () => end('SIGTERM'),
    kill: () => end('SIGKILL'),
    async [Symbol.asyncDispose]() {
      child?.kill('SIGCONT');
      await end('SIGTERM');
      killUnder(folder);
      await systemClock.sleep(200);
      await unmountUnder(folder);
      rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
      await ip('link', 'del', bridge);
    },
  };
  await start();
  return daemon;
}

/** Its folder, disk and bridge, and the words that it is started with. */
async function makePlace(options: { live_restore: boolean; disk_mib?: number }) {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-dockerd-'));
  const at = (name: string) => join(folder, name);
  const random = Buffer.from(systemRandom.bytes(4)).toString('hex');
  const bridge = `eint${random}`;
  mkdirSync(at('data'));
  if (options.disk_mib !== undefined) {
    const words = ['-t', 'tmpfs', '-o', `size=${options.disk_mib}m`, 'tmpfs', at('data')];
    const mounted = await exec('mount', words, { timeout_ms: 10_000 });
    if (mounted.code !== 0) throw new Error(`no small disk: ${mounted.stderr}`);
  }
  writeFileSync(at('daemon.json'), JSON.stringify({ 'live-restore': options.live_restore }));
  await ip('link', 'add', 'name', bridge, 'type', 'bridge');
  const third = (systemRandom.bytes(1)[0] ?? 0) % 250;
  await ip('addr', 'add', `172.31.${third}.1/24`, 'dev', bridge);
  const args = [
    ...['-H', `unix://${at('sock')}`, '--data-root', at('data'), '--exec-root', at('exec')],
    ...['--pidfile', at('pid'), '--config-file', at('daemon.json')],
    ...['--bridge', bridge, '--iptables=false', '--ip-masq=false', '--log-level', 'error'],
  ];
  return { folder, at, bridge, args };
}

function answers(socket_path: string): Promise<boolean> {
  return createEngine(socket_path, systemClock)
    .version()
    .then(
      () => true,
      () => false,
    );
}

/** Shims and containerds of this folder: their command lines name it. */
function killUnder(folder: string): void {
  for (const name of readdirSync('/proc').filter((one) => /^\d+$/.test(one))) {
    try {
      const line = readCommand(name);
      if (line.includes(folder) && Number(name) !== process.pid)
        process.kill(Number(name), 'SIGKILL');
    } catch {
      // It ended meanwhile.
    }
  }
}

function readCommand(pid: string): string {
  return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
}

async function unmountUnder(folder: string): Promise<void> {
  const mounts = readFileSync('/proc/mounts', 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[1] ?? '')
    .filter((path) => path.startsWith(folder))
    .reverse();
  for (const path of mounts) await exec('umount', ['-l', path], { timeout_ms: 10_000 });
}

async function ip(...args: string[]): Promise<void> {
  const done = await exec('ip', args, { timeout_ms: 10_000 });
  if (done.code !== 0) throw new Error(`ip ${args.join(' ')}: ${done.stderr}`);
}
