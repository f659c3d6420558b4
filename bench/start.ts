/**
 * How long `einsora up` takes until it serves, with an empty store and with 10,000 workloads, and
 * what it holds when idle; beside an empty script of the same Node and a peer.
 *
 * Invariants: all of them take turns in one run; each start is a new process; the store of 10,000
 * is filled through the store's own transactions, its workloads stopped, so that none is started.
 */
import { globSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { makeId } from '../src/core/ids.ts';
import { no_extras, type WorkloadSpec } from '../src/core/workload.ts';
import { systemClock } from '../src/lib/clock.ts';
import { exec } from '../src/lib/exec.ts';
import { describeError } from '../src/lib/log.ts';
import { seededRandom } from '../src/lib/random.ts';
import { readIdentity } from '../src/store/accounts.ts';
import { openSqliteStore } from '../src/store/sqlite.ts';
import { type EinsoraStore, transactions } from '../src/store/transactions.ts';
import { freePort, residentMb, type Served, serve } from './served-program.ts';
import { findPeer, type Peer } from './start-peer.ts';

const root = join(import.meta.dirname, '..');
const up_timeout_ms = 60_000;
const workloads = 10_000;

export async function bench({ quick }: { quick: boolean }) {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-bench-'));
  const rounds = quick ? 3 : 5;
  try {
    const empty_script = join(folder, 'empty.ts');
    writeFileSync(empty_script, '');
    const full = join(folder, 'full');
    await (await up(full)).stop(); // also warms the file cache, as for a second start
    await fill(full);
    const peer = quick ? { missing: 'left out of the short form' } : await workingPeer();
    const times = { node: [] as number[], empty: [] as number[], full: [] as number[] };
    const peers: number[] = [];
    for (let round = 0; round < rounds; round += 1) {
      times.node.push(await timeEmptyScript(empty_script));
      times.empty.push(await timeUp(join(folder, `empty-${round}`)));
      times.full.push(await timeUp(full));
      if ('start' in peer) peers.push(await peer.start());
    }
    const keys = {
      ...spread('up_empty', times.empty),
      ...spread('up_10k', times.full),
      ...spread('node_empty', times.node),
      idle_rss_mb: await measureIdle(join(folder, 'idle'), quick ? 1000 : 5000),
      ...('start' in peer ? spread('peer_start', peers) : { peer_start_ms: null }),
      peer: 'start' in peer ? peer.name : null,
      peer_missing: 'missing' in peer ? peer.missing : null,
      rounds,
    };
    printTable(keys);
    return keys;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A peer that does not start is reported as missing, with why. */
async function workingPeer(): Promise<Peer | { missing: string }> {
  const peer = await findPeer();
  if ('missing' in peer) return peer;
  try {
    await peer.start(); // warms the file cache, as for ours
    return peer;
  } catch (error) {
    return { missing: `${peer.name}: ${describeError(error).slice(0, 300)}` };
  }
}

async function up(data_dir: string): Promise<Served> {
  const port = await freePort();
  const args = ['up', '--no-open', '--port', String(port), '--data-dir', data_dir];
  const url = `http://127.0.0.1:${port}/healthz`;
  return serve({ command: join(root, 'bin/einsora'), args, url }, up_timeout_ms);
}

async function timeUp(data_dir: string): Promise<number> {
  const served = await up(data_dir);
  await served.stop();
  return served.ready_ms;
}

async function measureIdle(data_dir: string, idle_ms: number): Promise<number | null> {
  const served = await up(data_dir);
  await systemClock.sleep(idle_ms);
  const rss_mb = residentMb(served.pid);
  await served.stop();
  return rss_mb === null ? null : rounded(rss_mb);
}

async function timeEmptyScript(path: string): Promise<number> {
  const started_at = systemClock.monotonic();
  await exec(process.execPath, [path], { timeout_ms: up_timeout_ms });
  return systemClock.monotonic() - started_at;
}

async function fill(data_dir: string): Promise<void> {
  const [path] = globSync('**/einsora.db', { cwd: data_dir });
  if (path === undefined) throw new Error(`there is no store in ${data_dir}`);
  const store: EinsoraStore = await openSqliteStore({
    folder: join(data_dir, dirname(path)),
    transactions_url: new URL('../src/store/transactions.ts', import.meta.url).href,
    transactions,
  });
  const { tenant_id, user_id } = await store.read(readIdentity, {});
  const random = seededRandom(1);
  const now = systemClock.now();
  for (let first = 0; first < workloads; first += 500) {
    await Promise.all(
      Array.from({ length: 500 }, async (_, index) => {
        const who = { tenant_id, actor: `user:${user_id}`, request_id: 'bench', now };
        const id = makeId(now, random.bytes(10));
        const spec = specOf(`filler-${first + index}`);
        const common = { ...who, idempotency: null };
        await store.transact('launchWorkload', {
          ...common,
          ...{ id, spec, creator_id: user_id, name_is_free: false },
        });
        await store.transact('stopWorkload', { ...common, workload: id });
      }),
    );
  }
  await store.close();
}

function specOf(name: string): WorkloadSpec {
  return {
    kind: 'endpoint',
    name,
    region: 'local',
    accelerator: 'cpu',
    gpu_class: null,
    gpu_count: 0,
    cpu_millis: 1000,
    memory_bytes: 2 * 2 ** 30,
    disk_bytes: 0,
    model: 'smollm2-135m',
    model_params: {},
    ...no_extras,
  };
}

/** The median, and the least and the most. */
function spread(name: string, values: readonly number[]): Record<string, number> {
  const sorted = values.toSorted((a, b) => a - b);
  return {
    [`${name}_ms`]: rounded(sorted[Math.floor(sorted.length / 2)] ?? 0),
    [`${name}_min_ms`]: rounded(sorted[0] ?? 0),
    [`${name}_max_ms`]: rounded(sorted.at(-1) ?? 0),
  };
}

function printTable(keys: Record<string, unknown>): void {
  for (const [key, value] of Object.entries(keys)) console.log(`${key.padEnd(22)}${value}`);
}

function rounded(value: number): number {
  return Math.round(value * 10) / 10;
}
