/**
 * A client that leaves, in every phase: how soon the connection to the engine is gone, and how soon
 * the slot of a real llama-server is idle. The figures are printed; what is asserted is generous,
 * for machines that do other things meanwhile.
 *
 * EINSORA_GONE_TRIES sets how often.
 */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../src/lib/clock.ts';
import { open, type Rig, run, startRig } from '../lib/gateway-rig.ts';
import { writeSlowModel } from '../lib/known-answer.ts';
import { needs } from '../lib/parts.ts';
import { temporaryFolder, until } from '../lib/program.ts';
import { type RealEngine, startRealEngine } from '../lib/real-engine.ts';
import { chatEvent, type Script } from '../lib/upstream.ts';

const tries = Number(process.env.EINSORA_GONE_TRIES ?? '40');
const generous_ms = 1500;

const begun = chatEvent('so');
/** How far an engine has come when its client leaves. */
const phases: { name: string; script: Script }[] = [
  { name: 'nothing yet', script: () => {} },
  { name: 'headers', script: (reply) => reply.writeHead(200, stream_headers).flushHeaders() },
  { name: 'content', script: (reply) => void reply.writeHead(200, stream_headers).write(begun) },
];
const stream_headers = { 'Content-Type': 'text/event-stream' };

function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}

function figures(name: string, measured: readonly number[]): string {
  const sorted = [...measured].sort((a, b) => a - b);
  const [p50, p99] = [percentile(sorted, 0.5), percentile(sorted, 0.99)];
  return `${name}: p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms of ${sorted.length}`;
}

test('the connection to the engine goes with the client, in each phase, streamed and not', async (t) => {
  const rig = await startRig();
  try {
    const all: number[] = [];
    for (const { name, script } of phases) {
      for (const stream of [true, false]) {
        const took: number[] = [];
        for (let turn = 0; turn < Math.ceil(tries / 6); turn += 1) {
          took.push(await leave(rig, script, stream));
        }
        all.push(...took);
        t.diagnostic(figures(`${name}, ${stream ? 'streamed' : 'not streamed'}`, took));
      }
    }
    t.diagnostic(figures('engine connection gone', all));
    assert.ok(Math.max(...all) < generous_ms, figures('gone', all));
    await rig.settled();
    assert.ok(rig.logged.every(({ outcome }) => outcome === 'client_left'));
  } finally {
    await rig.close();
  }
});

/** From the client's going until the engine sees its connection closed. */
async function leave(rig: Rig, script: Script, stream: boolean): Promise<number> {
  const answering = new Promise<void>((resolve) => {
    rig.upstream.answer(async (reply, seen) => {
      await script(reply, seen);
      resolve();
    });
  });
  const question = rig.upstream.next();
  const opened = open(rig, { body: { model: 'smol', stream, messages: [] } });
  const { gone } = await question;
  await answering;
  if (stream && script === phases.at(-1)?.script) await opened;
  const left_at = systemClock.monotonic();
  opened.leave();
  await gone;
  return systemClock.monotonic() - left_at;
}

test('the slot of a real engine is idle soon after its client left, beside another stream', {
  ...needs('llama'),
  timeout: 300_000,
}, async (t) => {
  const folder = temporaryFolder();
  const model_path = join(folder, 'slow.gguf');
  writeSlowModel(model_path);
  const engine = await startRealEngine({ model_path, parallel: 2, context_length: 16_384 });
  const rig = await startRig({ dial: () => engine.dial(), clock: systemClock });
  try {
    const beside = open(rig, { body: question(true) });
    await beside;
    for (const stream of [true, false]) {
      const took: number[] = [];
      for (let turn = 0; turn < Math.max(3, Math.ceil(tries / 20)); turn += 1) {
        took.push(await leaveEngine(rig, engine, stream));
      }
      t.diagnostic(figures(`slot idle, ${stream ? 'streamed' : 'not streamed'}`, took));
      assert.ok(Math.max(...took) < 2 * generous_ms, figures('idle', took));
    }
    assert.equal(await engine.busySlots(), 1, 'the other stream goes on');
    beside.leave();
    await untilBusy(engine, 0);
  } finally {
    await rig.close();
    await engine.stop();
    rmSync(folder, { recursive: true });
  }
});

const question = (stream: boolean) => {
  const messages = [{ role: 'user', content: `Go on, for run ${run.run_epoch}.` }];
  return { model: 'smol', stream, messages, max_tokens: 15_000 };
};

async function leaveEngine(rig: Rig, engine: RealEngine, stream: boolean): Promise<number> {
  await untilBusy(engine, 1);
  const opened = open(rig, { body: question(stream) });
  await untilBusy(engine, 2);
  // It is past the prompt, and decodes.
  if (stream) await opened;
  else await systemClock.sleep(300);
  const left_at = systemClock.monotonic();
  opened.leave();
  await untilBusy(engine, 1);
  return systemClock.monotonic() - left_at;
}

function untilBusy(engine: RealEngine, count: number): Promise<void> {
  const isSo = async () => (await engine.busySlots()) === count;
  return until(isSo, 20_000, () => `there are never ${count} slots busy`);
}
