/**
 * What runs use, looked at on a clock that only moves when told.
 */
import assert from 'node:assert/strict';
import { Duplex } from 'node:stream';
import { test } from 'node:test';
import { runOf } from '../../test/lib/agent-rig.ts';
import { createFakeClock, settle } from '../../test/lib/fake-clock.ts';
import { limits } from '../contract/limits.ts';
import type { DesiredRun, RunSample } from '../contract/sync.ts';
import { type Driver, no_stats, type RunStats } from '../drivers/driver.ts';
import type { LocalRun } from './local-run.ts';
import { foldSamples } from './sample-fold.ts';
import { createSampler, type Kept } from './sampler.ts';

const every_ms = limits.sample_every_ms;

function ready(number: number, driver: string): LocalRun {
  const run = { run: runOf(number), driver, phase: 'ready' as const, is_there: true };
  return { ...run, end: null, oom_kills: 0 } as unknown as LocalRun;
}

function driverOf(stats: () => Promise<RunStats>, more: Partial<Driver> = {}): Driver {
  return { stats, ...more } as Driver;
}

function rig(drivers: Record<string, Driver>, here: LocalRun[]) {
  const clock = createFakeClock();
  const sampler = createSampler({
    ...{ drivers: new Map(Object.entries(drivers)), clock },
    ...{ ready: () => here, sampled: () => {} },
  });
  return { clock, sampler };
}

const short = ({ span_ms, cpu_millis, ago_ms }: RunSample) => [span_ms, cpu_millis, ago_ms];

test('CPU is what was used since the look before it, and unknown at the first', async () => {
  let cpu_ms = 50_000;
  const stats = async () => ({ ...no_stats, cpu_ms, memory_bytes: 7 });
  const { clock, sampler } = rig({ sim: driverOf(stats) }, [ready(1, 'sim')]);
  await clock.advance(every_ms);
  cpu_ms += 5000;
  await clock.advance(every_ms);
  await clock.advance(500);
  const { samples, taken } = sampler.batch();
  assert.deepEqual(samples.map(short), [
    [0, null, 10_500],
    [10_000, 500, 500],
  ]);
  assert.deepEqual([samples[0]?.memory_bytes, samples[0]?.disk_bytes], [7, null]);
  assert.equal(samples[0]?.used, undefined, 'an endpoint has no kernels');
  // Told again until a report with them was taken; what came meanwhile is for the next.
  cpu_ms = 10;
  await clock.advance(every_ms);
  taken();
  const rest = sampler.batch().samples;
  assert.deepEqual(rest.map(short), [[10_000, null, 500]], 'a count that fell began anew');
  await sampler.stop();
});

test('a driver that hangs keeps no other from being asked, and is not asked on and on', async () => {
  let asked = 0;
  const hangs = driverOf(() => {
    asked += 1;
    return new Promise(() => {});
  });
  const works = driverOf(async () => ({ ...no_stats, memory_bytes: 1 }));
  const here = [ready(1, 'hangs'), ready(2, 'works')];
  const { clock, sampler } = rig({ hangs, works }, here);
  await clock.advance(4 * every_ms);
  const { samples } = sampler.batch();
  const of = (number: number) =>
    samples.filter((one) => one.workload_id === runOf(number).workload_id);
  assert.deepEqual(
    of(2).map((one) => one.memory_bytes),
    [1, 1, 1, 1],
  );
  assert.ok(of(1).length >= 2);
  assert.ok(of(1).every((one) => one.memory_bytes === null && one.cpu_millis === null));
  assert.equal(asked, 1);
  await sampler.stop();
});

test('one run that fails leaves the others of its driver as they are', async () => {
  const driver = {
    async stats({ workload_id }: { workload_id: string }) {
      if (workload_id === runOf(1).workload_id) throw new Error('gone');
      return { ...no_stats, memory_bytes: 3 };
    },
  } as unknown as Driver;
  const { clock, sampler } = rig({ sim: driver }, [ready(1, 'sim'), ready(2, 'sim')]);
  await clock.advance(every_ms);
  assert.deepEqual(
    sampler.batch().samples.map((one) => one.memory_bytes),
    [null, 3],
  );
  await sampler.stop();
});

test('what nobody takes for hours is folded: bounded, whole in time, no use averaged away', async () => {
  let cpu_ms = 0;
  let memory_bytes = 1;
  const stats = async () => ({ ...no_stats, cpu_ms, memory_bytes });
  const here = [ready(1, 'sim')];
  const { clock, sampler } = rig({ sim: driverOf(stats) }, here);
  const rounds = 1000;
  for (let round = 1; round <= rounds; round += 1) {
    if (round === 300) cpu_ms += 10_000;
    if (round === 301) memory_bytes = 2;
    await clock.advance(every_ms);
  }
  const { samples } = sampler.batch();
  assert.ok(samples.length <= limits.samples_kept_by_agent);
  const spans = samples.reduce((sum, one) => sum + one.span_ms, 0);
  assert.equal(spans, (rounds - 1) * every_ms);
  assert.equal(samples.at(-1)?.span_ms, every_ms, 'what is new stays fine');
  const busy = samples.filter((one) => one.cpu_millis !== 0);
  // The first look, which nobody knows, and the busy one may have come into one.
  assert.ok(busy.every((one) => one.cpu_millis === 1000 || one.cpu_millis === null));
  assert.ok(busy.length >= 1 && busy.length < samples.length);
  here.length = 0;
  await clock.advance(every_ms);
  assert.deepEqual(sampler.batch().samples, [], 'a run that is gone is forgotten');
  await sampler.stop();
});

test('folding knows nothing of what was not known in a part, and forgets no use', () => {
  const gpu = (busy_percent: number | null) => [{ uuid: 'G', busy_percent, memory_bytes: 1 }];
  const sample = (at: number, more: Partial<Kept>): Kept => ({
    ...{ ...runOf(1), at, span_ms: 10, cpu_millis: 1, memory_bytes: 1, disk_bytes: null },
    ...{ gpus: gpu(3), used: false, ...more },
  });
  const pairs: [Partial<Kept>, Partial<Kept>, Partial<Kept>][] = [
    [{ used: true }, { used: null }, { used: true }],
    [{ used: false }, { used: null }, { used: null }],
    [{ cpu_millis: null }, { cpu_millis: 9 }, { cpu_millis: null }],
    [{ cpu_millis: 9 }, { cpu_millis: 2 }, { cpu_millis: 9 }],
    [{ gpus: gpu(90) }, { gpus: gpu(1) }, { gpus: gpu(90) }],
    [{ gpus: gpu(null) }, { gpus: gpu(1) }, { gpus: gpu(null) }],
    [{ gpus: [] }, { gpus: gpu(1) }, { gpus: gpu(null) }],
    [{ gpus: null }, { gpus: gpu(1) }, { gpus: null }],
  ];
  for (const [one, other, expected] of pairs) {
    const [folded, ...rest] = foldSamples([
      ...[sample(10, one), sample(20, other), sample(30, {}), sample(40, {})],
    ]);
    assert.deepEqual(folded, { ...sample(20, other), ...expected, span_ms: 20 });
    assert.equal(rest.length, 2);
  }
});

/** A Jupyter server that says this of its kernels. */
function jupyter(answer: (path: string, authorization: string) => string | null) {
  const asked: string[] = [];
  const dial = async () => {
    const stream = new Duplex({
      read() {},
      write(chunk, _, done) {
        const text = String(chunk);
        const path = /^GET (\S+) /.exec(text)?.[1] ?? '';
        asked.push(path);
        const body = answer(path, /authorization: (.+)\r/i.exec(text)?.[1] ?? '');
        const status = body === null ? '403 Forbidden' : '200 OK';
        const length = Buffer.byteLength(body ?? '');
        stream.push(`HTTP/1.1 ${status}\r\nContent-Length: ${length}\r\n\r\n${body ?? ''}`);
        done();
      },
    });
    return stream;
  };
  return { dial, asked };
}

test('a notebook is used while a kernel works, and where something of it moved', async () => {
  let state = 'idle';
  let last_activity = 'one';
  const server = jupyter((path, authorization) => {
    if (authorization !== 'token abc') return null;
    if (path === '/api/status') return JSON.stringify({ last_activity, kernels: 1 });
    return JSON.stringify([{ execution_state: 'idle' }, { execution_state: state }]);
  });
  const driver = driverOf(async () => no_stats, { dial: server.dial });
  const { clock, sampler } = rig({ sim: driver }, [ready(1, 'sim')]);
  const look = async () => {
    await clock.advance(every_ms);
    await settle(30);
    const { samples, taken } = sampler.batch();
    taken();
    return samples.at(-1)?.used;
  };
  const desired = { ...runOf(1), spec: { kind: 'notebook' } } as unknown as DesiredRun;
  sampler.learn([{ ...desired, secrets: null }]);
  assert.equal(await look(), null, 'without its token nobody can tell');
  sampler.learn([{ ...desired, secrets: { site_token: 'abc', values: {} } }]);
  assert.equal(await look(), null, 'nothing to compare with');
  assert.equal(await look(), false);
  state = 'busy';
  assert.equal(await look(), true, 'a cell that computes in silence');
  state = 'idle';
  assert.equal(await look(), false);
  last_activity = 'two';
  assert.equal(await look(), true, 'a terminal, or a page that is open');
  assert.equal(await look(), false);
  sampler.learn([{ ...desired, secrets: { site_token: 'wrong', values: {} } }]);
  assert.equal(await look(), null);
  assert.ok(server.asked.includes('/api/kernels?no_track_activity=1'), 'asking is no use');
  await sampler.stop();
});

test('who has GPUs is told how busy they are, apart from what its driver tells', async () => {
  const stats = async () => ({ ...no_stats, memory_bytes: 7 });
  const clock = createFakeClock();
  const here = [ready(1, 'docker'), ready(2, 'docker')];
  const asked: (readonly string[])[] = [];
  const sampler = createSampler({
    ...{ drivers: new Map([['docker', driverOf(stats)]]), clock },
    ...{ ready: () => here, sampled: () => {} },
    async gpuUse(uuids) {
      asked.push(uuids);
      if (asked.length > 1) throw new Error('it hangs');
      return uuids.map((uuid) => ({ uuid, busy_percent: 50, memory_bytes: 1 }));
    },
  });
  const desired = here.map(({ run }, index) => ({
    ...run,
    spec: { kind: 'instance', gpu_uuids: index === 0 ? ['GPU-1'] : undefined },
  }));
  sampler.learn(desired as unknown as DesiredRun[]);
  await clock.advance(every_ms);
  await clock.advance(every_ms);
  const told = sampler.batch().samples.map(({ gpus, memory_bytes }) => [gpus, memory_bytes]);
  assert.deepEqual(told, [
    [[{ uuid: 'GPU-1', busy_percent: 50, memory_bytes: 1 }], 7],
    [null, 7],
    [null, 7],
    [null, 7],
  ]);
  assert.deepEqual(asked, [['GPU-1'], ['GPU-1']]);
  await sampler.stop();
});
