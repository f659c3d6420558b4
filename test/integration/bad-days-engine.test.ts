/**
 * Engines killed and clients that leave while it matters, with the real program and engine.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { systemClock } from '../../src/lib/clock.ts';
import { events, launch, show } from '../lib/bad-day.ts';
import { writeSlowModel } from '../lib/known-answer.ts';
import { needs } from '../lib/parts.ts';
import { enginesOf, runProcesses } from '../lib/processes.ts';
import { cleanUp, type Program, startProgram, temporaryFolder, until } from '../lib/program.ts';

const real = needs('llama', 'bwrap', 'cgroup');
const data_dir = temporaryFolder();
const model = join(data_dir, 'slow.gguf');
let program: Program | null = null;
let endpoint = { id: '', key: '' };

before(async () => {
  if (real.skip !== false) return;
  writeSlowModel(model);
  program = await startProgram({ data_dir });
  const { code, document } = await launch(program, model, '--context-length', '4096');
  assert.equal(code, 0, JSON.stringify(document.error));
  endpoint = { id: document.workload.id, key: document.key ?? '' };
});
after(async () => {
  await cleanUp(data_dir, program);
  assert.deepEqual(runProcesses(data_dir), []);
});

function running(): Program {
  assert.ok(program !== null);
  return program;
}

/** A stream that would go on for long; resolves when its first bytes are there. */
async function openStream(signal?: AbortSignal) {
  const messages = [{ role: 'user', content: 'Go on.' }];
  const answer = await fetch(`${running().url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${endpoint.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'slow', messages, stream: true, max_tokens: 4000 }),
    ...(signal === undefined ? {} : { signal }),
  });
  assert.equal(answer.status, 200);
  assert.ok(answer.body !== null);
  const reader = answer.body.getReader();
  const first = await reader.read();
  return { reader, first: Buffer.from(first.value ?? []).toString() };
}

async function untilRunning(run_epoch: number): Promise<void> {
  await until(
    async () => {
      const { state, placement } = await show(running(), endpoint.id);
      return state === 'running' && placement?.run_epoch === run_epoch;
    },
    30_000,
    () => `run ${run_epoch} is not running`,
  );
}

test('an engine killed in mid-answer: the client is told, and it comes back', real, async () => {
  const { reader, first } = await openStream();
  for (const pid of enginesOf(data_dir, endpoint.id)) process.kill(pid, 'SIGKILL');
  let rest = first;
  let broke = false;
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      rest += Buffer.from(part.value).toString();
    }
  } catch {
    broke = true;
  }
  assert.ok(!rest.includes('[DONE]'), 'it does not end like a whole answer');
  const last = rest.trim().split('\n\n').at(-1) ?? '';
  assert.match(last, /^data: \{"error":\{/, last.slice(0, 300));
  assert.equal(typeof JSON.parse(last.slice(6)).error.code, 'string');
  assert.equal(broke, true, 'the connection breaks after the error');
  await untilRunning(2);
  const told = (await events(running(), endpoint.id)).find(({ code }) => code === 'engine_exited');
  assert.match(told?.message ?? '', /The engine ended by itself \(signal SIGKILL\)/);
  await (await openStream()).reader.cancel();
});

test('after a client left in mid-stream the engine is idle within a second', real, async () => {
  const leaving = new AbortController();
  await openStream(leaving.signal);
  await until(
    async () => (await cpuTicks(200)) > 4,
    5000,
    () => 'the engine does not work at all',
  );
  leaving.abort();
  await until(
    async () => (await cpuTicks(200)) <= 1,
    1200,
    () => 'the engine goes on for nobody',
  );
});

test('an engine killed while it loads is started again, and said why', real, async () => {
  const ran = await running().cli(['stop', endpoint.id, '--json']);
  assert.equal(ran.code, 0, ran.stderr);
  assert.deepEqual(runProcesses(data_dir), []);
  const before = (await events(running(), endpoint.id)).length;
  await running().api(`/v1/workloads/${endpoint.id}/start`, { method: 'POST' });
  let killed = 0;
  await until(
    () => {
      for (const pid of enginesOf(data_dir, endpoint.id)) {
        process.kill(pid, 'SIGKILL');
        killed += 1;
      }
      return killed > 0;
    },
    15_000,
    () => 'no engine appeared',
  );
  await untilRunning(4);
  const since = (await events(running(), endpoint.id)).slice(before);
  const told = since.find(({ code }) => code === 'engine_exited');
  assert.match(told?.message ?? '', /signal SIGKILL/);
  assert.equal(told?.from_state, 'provisioning', 'it had not been ready');
});

test('rm while a stop waits for a deaf engine deletes it', real, async () => {
  for (const pid of enginesOf(data_dir, endpoint.id)) process.kill(pid, 'SIGSTOP');
  const stopping = await running().cli(['stop', endpoint.id, '--detach', '--json']);
  assert.equal(stopping.code, 0, stopping.stderr);
  assert.equal((await show(running(), endpoint.id)).state, 'stopping');
  const removed = await running().cli(['rm', endpoint.id, '--json']);
  assert.equal(removed.code, 0, removed.stderr);
  assert.equal((await show(running(), endpoint.id)).state, 'deleted');
  assert.deepEqual(runProcesses(data_dir), []);
});

/** CPU that the engine used in so long, in hundredths of a second. */
async function cpuTicks(over_ms: number): Promise<number> {
  const before = ticksNow();
  await systemClock.sleep(over_ms);
  return ticksNow() - before;
}

function ticksNow(): number {
  return enginesOf(data_dir, endpoint.id).reduce((sum, pid) => {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return sum + Number(fields[11]) + Number(fields[12]);
  }, 0);
}
