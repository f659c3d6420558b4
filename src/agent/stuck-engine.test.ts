/** An engine that is well by its own word: made up, in its own time, and looked at by its work. */
import assert from 'node:assert/strict';
import { createServer, type ServerResponse } from 'node:http';
import { duplexPair } from 'node:stream';
import { test } from 'node:test';
import { type AgentRig, createAgentRig, desire, runOf } from '../../test/lib/agent-rig.ts';
import type { Driver } from '../drivers/driver.ts';
import { reconcile } from './reconcile.ts';
import { createRuns } from './runs.ts';
import {
  type EngineSigns,
  noSuspicion,
  type Suspicion,
  stuckFor,
  suspect,
  suspectAnswer,
  type TokenAnswer,
} from './stuck-engine.ts';

const minute_ms = 60_000;

type MadeUp = {
  /** What each look at its metrics finds; null for silence, 404 for an engine without them. */
  metrics(): { steps: number; open: number } | null | 404;
  token: 'gives' | 'silent' | 'refuses';
  cpu_ms(): number | null;
  /** How often a token was asked for. */
  asked: number;
  paused: boolean;
};

function serveMadeUp(engine: MadeUp, isReady: () => boolean) {
  const [near, far] = duplexPair();
  const server = createServer((request, response) => {
    const say = (status: number, text: string) => void response.writeHead(status).end(text);
    if (request.url === '/health') return say(isReady() ? 200 : 503, '{}');
    if (request.url === '/metrics') return sayMetrics(engine, say);
    engine.asked += 1;
    sayToken(engine, response);
  });
  server.emit('connection', far);
  return near;
}

function sayMetrics(engine: MadeUp, say: (status: number, text: string) => void): void {
  const told = engine.metrics();
  if (told === 404) say(404, 'no such path');
  else if (told !== null) {
    say(200, `llamacpp:n_decode_total ${told.steps}\nllamacpp:requests_processing ${told.open}\n`);
  }
}

function sayToken({ token }: MadeUp, response: ServerResponse): void {
  if (token === 'gives') response.end('{"choices":[]}');
  else if (token === 'refuses') response.writeHead(500).end('{"error":{}}');
}

type Scene = { rig: AgentRig; engine: MadeUp; phase(): string; end(): string | null };

/** A run that is ready, and what its engine does from then on. */
async function withEngine(then: (scene: Scene) => Promise<void>): Promise<void> {
  const engine: MadeUp = {
    ...{ metrics: () => ({ steps: 1, open: 0 }), token: 'gives', asked: 0, paused: false },
    cpu_ms: () => null,
  };
  const wrap = (driver: Driver): Driver => ({
    ...driver,
    dial: async () => serveMadeUp(engine, () => true),
    stats: async (run) => ({ ...(await driver.stats(run)), cpu_ms: engine.cpu_ms() }),
    observe: async () => (await driver.observe()).map((one) => ({ ...one, paused: engine.paused })),
  });
  const rig = createAgentRig({ wrap });
  const runs = createRuns({ ...rig.deps, changed: () => {} });
  const local = () => runs.locals()[0];
  try {
    runs.carryOut(reconcile([desire(runOf(1))], runs.facts()));
    await rig.until(() => local()?.phase === 'ready', 'ready');
    engine.asked = 0;
    await then({
      ...{ rig, engine },
      phase: () => local()?.phase ?? '',
      end: () => local()?.end?.reason ?? null,
    });
  } finally {
    await runs.leave();
    rig.close();
  }
}

async function pass({ rig }: Scene, ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= 1000) await rig.clock.advance(1000);
}

test('an engine that holds a request and makes no token is ended, be it ever so well', () =>
  withEngine(async (scene) => {
    Object.assign(scene.engine, { metrics: () => ({ steps: 9, open: 1 }), token: 'silent' });
    await pass(scene, 5 * minute_ms);
    assert.equal(scene.phase(), 'ready', 'it has minutes');
    await pass(scene, 4 * minute_ms);
    assert.equal(scene.end(), 'engine_stuck');
    assert.equal(scene.engine.asked, 3);
  }));

test('so is one that does not even say how far it is', () =>
  withEngine(async (scene) => {
    Object.assign(scene.engine, { metrics: () => null, token: 'silent' });
    await pass(scene, 10 * minute_ms);
    assert.equal(scene.end(), 'engine_stuck');
  }));

test('so is one that refuses whatever it is asked', () =>
  withEngine(async (scene) => {
    Object.assign(scene.engine, { metrics: () => ({ steps: 9, open: 1 }), token: 'refuses' });
    await pass(scene, 3 * minute_ms);
    assert.equal(scene.end(), 'engine_stuck');
  }));

test('an engine that is busy all the time is not asked, and goes on', () =>
  withEngine(async (scene) => {
    let steps = 0;
    scene.engine.token = 'silent';
    scene.engine.metrics = () => {
      steps += 1;
      return { steps, open: 40 };
    };
    await pass(scene, 30 * minute_ms);
    assert.equal(scene.phase(), 'ready');
    assert.equal(scene.engine.asked, 0);
  }));

test('one that works at a step of many minutes goes on as long as it burns its CPU', () =>
  withEngine(async (scene) => {
    const { engine, rig } = scene;
    Object.assign(engine, { metrics: () => null, token: 'silent' });
    engine.cpu_ms = () => Math.floor(rig.clock.monotonic() * 0.9);
    await pass(scene, 50 * minute_ms);
    assert.equal(scene.phase(), 'ready');
    await pass(scene, 25 * minute_ms);
    assert.equal(scene.end(), 'engine_stuck', 'but not for ever');
  }));

test('one that waits for its turn between two steps, and then goes on, is left alone', () =>
  withEngine(async (scene) => {
    const { engine, rig } = scene;
    const began = rig.clock.monotonic();
    engine.token = 'silent';
    engine.metrics = () => ({
      steps: Math.floor((rig.clock.monotonic() - began) / (4 * minute_ms)),
      open: 4,
    });
    await pass(scene, 20 * minute_ms);
    assert.equal(scene.phase(), 'ready');
    assert.ok(engine.asked > 3, 'it was asked, and a step came each time');
  }));

test('an idle engine is not asked, so that it stays idle', () =>
  withEngine(async (scene) => {
    await pass(scene, 15 * minute_ms);
    assert.equal(scene.engine.asked, 0);
  }));

test('one that gives the token it is asked for is left alone', () =>
  withEngine(async (scene) => {
    scene.engine.metrics = () => ({ steps: 9, open: 1 });
    await pass(scene, 20 * minute_ms);
    assert.equal(scene.phase(), 'ready');
    assert.ok(scene.engine.asked >= 10, `${scene.engine.asked}`);
  }));

test('one that was made to stand still is left alone', () =>
  withEngine(async (scene) => {
    Object.assign(scene.engine, { metrics: () => null, token: 'silent', paused: true });
    await pass(scene, 12 * minute_ms);
    assert.equal(scene.engine.asked, 0);
    assert.equal(scene.phase(), 'ready');
  }));

test('an engine that fails at once at each question is ended where the gateway has doubts', () =>
  withEngine(async (scene) => {
    let steps = 0;
    scene.engine.token = 'refuses';
    // What fails counts as a step, and nothing waits at the moment of a look.
    scene.engine.metrics = () => {
      steps += 1;
      return { steps, open: 0 };
    };
    await pass(scene, 3 * minute_ms);
    assert.equal(scene.engine.asked, 0, 'nobody complained');
    scene.rig.doubts.learn([runOf(1)]);
    await pass(scene, minute_ms);
    assert.equal(scene.end(), 'engine_stuck');
    assert.equal(scene.engine.asked, 3);
  }));

test('so is one that counts no steps; one of those that is only silent is left alone', () =>
  withEngine(async (scene) => {
    Object.assign(scene.engine, { metrics: () => 404, token: 'silent' });
    await pass(scene, 2 * minute_ms);
    scene.rig.doubts.learn([runOf(1)]);
    await pass(scene, 12 * minute_ms);
    assert.equal(scene.phase(), 'ready');
    scene.engine.token = 'refuses';
    await pass(scene, 4 * minute_ms);
    assert.equal(scene.end(), 'engine_stuck');
  }));

test('a doubt that a token refutes is asked about once a minute, while it lasts', () =>
  withEngine(async (scene) => {
    const { engine, rig } = scene;
    await pass(scene, 2 * minute_ms);
    rig.doubts.learn([runOf(1)]);
    await pass(scene, 5 * minute_ms);
    assert.ok(engine.asked >= 4 && engine.asked <= 6, `${engine.asked}`);
    rig.doubts.learn([runOf(2)]);
    const { asked } = engine;
    await pass(scene, 5 * minute_ms);
    assert.equal(engine.asked, asked);
    assert.equal(scene.phase(), 'ready');
  }));

test('a silence while a step came, or while it stood still, is not held against it', () => {
  const going: EngineSigns = { seen: 'going', progress: 'silent', works_hard: false };
  const quiet = suspect(noSuspicion(0), going, 70_000, 1e9);
  assert.equal(quiet.quiet_since, 0);
  const answer = (before: Suspicion, how: TokenAnswer) =>
    suspectAnswer(before, { asked_at: 70_000, how }, 190_000);
  assert.equal(answer(quiet, 'silent').silences, 1);
  const stepped = suspect(quiet, { ...going, progress: { steps: 2, open: 1 } }, 80_000, 1e9);
  assert.equal(answer(stepped, 'silent').silences, 0);
  const paused = suspect(quiet, { ...going, seen: 'paused' }, 80_000, 1e9);
  assert.equal(answer(paused, 'silent').silences, 0);
  assert.deepEqual(answer(answer(quiet, 'silent'), 'gave'), noSuspicion(190_000));
});

test('failures count whatever steps came; their time is counted from the first', () => {
  const going: EngineSigns = { seen: 'going', progress: { steps: 1, open: 0 }, works_hard: true };
  let suspicion = noSuspicion(0);
  for (const at of [10, 20, 30]) {
    assert.equal(stuckFor(suspicion, at), null);
    suspicion = suspectAnswer(suspicion, { asked_at: at, how: 'failed' }, at + 1);
    suspicion = suspect(suspicion, { ...going, progress: { steps: at, open: 0 } }, at + 5, 1e9);
  }
  assert.equal(stuckFor(suspicion, 40), 30);
  assert.equal(stuckFor(suspect(suspicion, { ...going, seen: 'paused' }, 41, 1e9), 42), null);
});
