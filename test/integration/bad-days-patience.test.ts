/**
 * Runs that would last for ever or eat the machine, with real processes in the real sandbox and
 * short patience: ended, proven gone, and the reason told.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { createDoubts } from '../../src/agent/doubts.ts';
import { createEndpointWork, type EndpointDeps } from '../../src/agent/endpoint-run.ts';
import { callEngine, type EngineReply } from '../../src/agent/engine-client.ts';
import { createInstanceWork } from '../../src/agent/instance-run.ts';
import { openJournal } from '../../src/agent/journal.ts';
import { observedOf } from '../../src/agent/local-run.ts';
import { createNotebookWork } from '../../src/agent/notebook-run.ts';
import type { Patience } from '../../src/agent/run-watch.ts';
import { createRuns, type Runs } from '../../src/agent/runs.ts';
import { judgeReport } from '../../src/core/judge.ts';
import { runName } from '../../src/core/run.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { silentLog } from '../../src/lib/log.ts';
import { systemRandom } from '../../src/lib/random.ts';
import { createJupyter } from '../../src/runtimes/jupyter.ts';
import { createLlamaCpp } from '../../src/runtimes/llama-cpp.ts';
import type { Runtime } from '../../src/runtimes/runtime.ts';
import { newRun } from '../contracts/driver.ts';
import { changed } from '../lib/gguf-changes.ts';
import { entry } from '../lib/gguf-writer.ts';
import { writeKnownAnswerModel } from '../lib/known-answer.ts';
import { nativeHarness } from '../lib/native-harness.ts';
import { needs, testBwrap } from '../lib/parts.ts';
import { runProcesses } from '../lib/processes.ts';
import { until } from '../lib/program.ts';
import { hostEnv, testCache } from '../lib/wheel-bench.ts';

const short: Patience = {
  load_silence_ms: 1500,
  answer_ms: 2000,
  look_every_ms: 50,
  health_every_ms: 100,
  health_ms: 300,
  doubt_ms: 500,
  work_limit_ms: 5000,
};

const platform = `${process.platform}-${process.arch}`;
const given = { platform, env: hostEnv, clock: systemClock, random: systemRandom };
const llama = createLlamaCpp({ ...given, tools_folder: join(testCache, 'tools') });

/** An engine that is this script, in the Node that runs the tests. */
function standIn(script: string): Runtime {
  const engine = {
    ...{ label: 'stand-in', dialect: 'llama-server' as const, program: [], flags: [] },
    mounts: [{ source: process.execPath, target: '/opt/node', writable: false }],
  };
  return {
    name: 'stand-in',
    readiness: llama.readiness,
    find: async () => ({ ok: true, engine }),
    install: async () => ({ ok: true, engine }),
    command: () => ({
      argv: ['/opt/node', '-e', script],
      env: { PATH: '/usr/bin:/bin' },
      mounts: engine.mounts,
      ports: ['api'],
      notes: [],
    }),
  };
}

type Trial = {
  runs: Runs;
  data_dir: string;
  phase(): string;
  workload_id: string;
  /** Asks the engine itself. */
  ask(path: string, body: object): Promise<EngineReply>;
};

async function withRun(
  runtime: Runtime,
  memory_bytes: number,
  work: (trial: Trial) => Promise<void>,
  write: (path: string) => void = writeKnownAnswerModel,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-patience-'));
  await using harness = nativeHarness();
  const { driver } = harness;
  const model = join(folder, 'known.gguf');
  write(model);
  const bwrap: EndpointDeps['bwrap'] = {
    find: () => testBwrap.find(),
    async install() {
      const found = await testBwrap.find();
      if ('path' in found) return { ok: true, ...found };
      return { ok: false, code: 'sandbox_missing', details: { why: found.missing } };
    },
  };
  const resolveModel = async () => ({ ok: true as const, path: model, name: 'known' });
  const timed = { clock: systemClock, patience: short };
  const doubts = createDoubts();
  const tools = { tools_folder: testCache, platform: '', env: {}, ...timed, random: systemRandom };
  const runs = createRuns({
    drivers: new Map([[driver.name, driver]]),
    works: {
      endpoint: createEndpointWork({ ...timed, doubts, bwrap, runtime, resolveModel }),
      notebook: createNotebookWork({
        ...{ ...timed, bwrap, jupyter: createJupyter(tools) },
        gateway: { url: () => 'http://localhost:4600/v1' },
      }),
      instance: createInstanceWork(timed),
    },
    journal: openJournal(join(folder, 'journal'), silentLog),
    ...{ boot_id: 'boot', clock: systemClock, log: silentLog, changed: () => {} },
  });
  const run = newRun();
  const sizes = { cpu_millis: 1000, memory_bytes, context_length: 256, parallel: 1 };
  const engine = { image_id: null, accelerator: null };
  const spec = { kind: 'endpoint' as const, name: 'known', model, ...sizes, ...engine };
  const none = { begun: false, over: false, erase: false, secrets: null };
  const standing = { ...none, trust: 'owner' as const, sharing: 'private' as const };
  const desired = { ...run, ...standing, action: 'run' as const, driver: driver.name, spec };
  const local = () => runs.locals().find((one) => runName(one.run) === runName(run));
  try {
    runs.carryOut([{ step: 'bring-up', desired }]);
    await work({
      runs,
      data_dir: join(harness.folder, '..'),
      workload_id: run.workload_id,
      phase: () => local()?.phase ?? 'unknown',
      ask: (path, body) => {
        const call = { method: 'POST' as const, path, body, timeout_ms: 60_000 };
        const dial = () => driver.dial(run, 'api');
        return callEngine(systemClock, dial, call, new AbortController().signal);
      },
    });
  } finally {
    await runs.leave();
    rmSync(folder, { recursive: true });
  }
}

/** Waits for the end and gives what the control plane makes of it. */
async function endOf({ runs, phase, data_dir }: Trial, was_ready: boolean) {
  await until(
    () => phase() === 'ended',
    20_000,
    () => `it is ${phase()}`,
  );
  assert.deepEqual(runProcesses(data_dir), [], 'nothing of it is left');
  const [local] = runs.locals();
  assert.ok(local !== undefined);
  const reported = observedOf(local, systemClock);
  const ready_at = was_ready ? 1000 : null;
  const facts = { current: true, observed: 'present' as const, ended_at: null, removed_at: null };
  const state = was_ready ? ('running' as const) : ('provisioning' as const);
  const verdict = judgeReport(
    { ...facts, ready_at },
    { state, intent: 'running', attempts: 0 },
    reported,
    { now: 2000, machine: 'box' },
  );
  return { reported, move: verdict?.moves[0] };
}

const half_gib = 2 ** 29;

test(
  'a ready engine that hangs is ended as engine_hangs and replaced',
  needs('llama', 'bwrap', 'cgroup'),
  () =>
    withRun(llama, 2 * half_gib, async (trial) => {
      await until(
        () => trial.phase() === 'ready',
        30_000,
        () => `it is ${trial.phase()}`,
      );
      for (const { pid, part } of runProcesses(trial.data_dir)) {
        if (part === 'engine') process.kill(pid, 'SIGSTOP');
      }
      const { reported, move } = await endOf(trial, true);
      assert.equal(reported.reason, 'engine_hangs');
      assert.deepEqual([move?.event, move?.code], ['replace', 'engine_hangs']);
    }),
);

test(
  'a real engine that has more to do than it can for many seconds is not ended for it',
  needs('llama', 'bwrap', 'cgroup'),
  () =>
    withRun(llama, 2 * half_gib, async (trial) => {
      await until(
        () => trial.phase() === 'ready',
        30_000,
        () => `it is ${trial.phase()}`,
      );
      // One slot, and five who want it: a question of the agent's own would wait for long.
      const body = { prompt: 'Who runs you?', max_tokens: 200, ignore_eos: true };
      const ends_at = performance.now() + 5000;
      const client = async () => {
        let answers = 0;
        while (performance.now() < ends_at) {
          const reply = await trial.ask('/v1/completions', body);
          assert.ok(reply.ok && reply.status === 200, JSON.stringify(reply));
          answers += 1;
        }
        return answers;
      };
      const answers = await Promise.all([client(), client(), client(), client(), client()]);
      assert.ok(
        answers.every((count) => count > 0),
        String(answers),
      );
      assert.equal(trial.phase(), 'ready');
    }),
);

test(
  'a ready engine that is well by its own word and makes no token is ended and replaced',
  needs('bwrap', 'cgroup'),
  () => {
    // One answer, so that it gets ready; then it only holds what it is asked.
    const stuck = `let tokens = 1;
      require('node:http').createServer((asked, answer) => {
        if (asked.url === '/health') answer.end('{}');
        else if (asked.url === '/metrics') {
          answer.end('llamacpp:n_decode_total 1\\nllamacpp:requests_deferred 1\\n');
        } else if (tokens-- > 0) answer.end('{}');
      }).listen('/run/einsora/api.sock');`;
    return withRun(standIn(stuck), half_gib, async (trial) => {
      const { reported, move } = await endOf(trial, true);
      assert.equal(reported.reason, 'engine_stuck');
      assert.deepEqual([move?.event, move?.code], ['replace', 'engine_stuck']);
    });
  },
);

test(
  'an engine that serves but never gets ready is ended as engine_never_ready',
  needs('bwrap', 'cgroup'),
  () => {
    const never = `require('node:http')
      .createServer((_, answer) => answer.writeHead(503).end('loading'))
      .listen('/run/einsora/api.sock');`;
    return withRun(standIn(never), half_gib, async (trial) => {
      const { reported, move } = await endOf(trial, false);
      assert.equal(reported.reason, 'engine_never_ready');
      assert.deepEqual([move?.event, move?.code], ['fail', 'engine_never_ready']);
      assert.equal(reported.stages.find(({ state }) => state === 'failed')?.name, 'load');
    });
  },
);

/** Two loops within the bounds of the rules, one inside the other by way of a macro. */
const endless_template =
  '{% macro inner() %}{% for i in range(99999) %}{{ i % 7 }}{% endfor %}{% endmacro %}' +
  '{% for j in range(99999) %}{% if inner() | length > 1000000 %}{{ j }}{% endif %}{% endfor %}';

test(
  'a template that loops while the engine loads is ended by the deadline, as engine_never_ready',
  needs('llama', 'bwrap', 'cgroup'),
  () => {
    const write = (path: string) => {
      writeFileSync(path, changed(entry.string('tokenizer.chat_template', endless_template)));
    };
    return withRun(
      llama,
      2 * half_gib,
      async (trial) => {
        const { reported, move } = await endOf(trial, false);
        const stages = reported.stages.map(({ name, state }) => `${name} ${state}`);
        assert.ok(stages.includes('validate done'), 'no rule can see it');
        assert.equal(reported.reason, 'engine_never_ready', JSON.stringify(reported));
        assert.deepEqual([move?.event, move?.code], ['fail', 'engine_never_ready']);
      },
      write,
    );
  },
);

test(
  'an engine over its memory dies as out_of_memory, and is not tried again',
  needs('bwrap', 'cgroup'),
  () => {
    const hog = 'const kept = []; for (;;) kept.push(Buffer.alloc(2 ** 23, 1));';
    return withRun(standIn(hog), 160 * 2 ** 20, async (trial) => {
      const { reported, move } = await endOf(trial, false);
      assert.equal(reported.exit?.out_of_memory, true, JSON.stringify(reported));
      assert.deepEqual([move?.event, move?.code], ['fail', 'out_of_memory']);
    });
  },
);
