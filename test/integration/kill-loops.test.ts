/**
 * kill -9 of the whole program at random moments of a launch, again and again on one folder, with
 * an endpoint beside it that must not notice.
 *
 * Moments come from a seed, so that a failure can be repeated. EINSORA_KILL_LOOPS sets how often.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Workload, WorkloadEvent } from '../../src/contract/workloads.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { fraction, type Random, seededRandom } from '../../src/lib/random.ts';
import { writeKnownAnswerModel } from '../lib/known-answer.ts';
import { needs } from '../lib/parts.ts';
import { keeperOf, killRun, runProcesses, runsOf } from '../lib/processes.ts';
import { cleanUp, type Program, startProgram, temporaryFolder, until } from '../lib/program.ts';

const loops = Number(process.env.EINSORA_KILL_LOOPS ?? '20');
const seed = Number(process.env.EINSORA_KILL_SEED ?? '20260102');
/** A launch from the first byte of its request to the first answer takes about this long. */
const launch_ms = 1500;
const real = needs('llama', 'bwrap', 'cgroup');

test(
  `killed ${loops} times in mid-launch: nothing acknowledged is lost, nothing runs twice`,
  real,
  async (t) => {
    t.diagnostic(`seed ${seed}`);
    const data_dir = temporaryFolder();
    const model = join(data_dir, 'known.gguf');
    writeKnownAnswerModel(model);
    const random = seededRandom(seed);
    const watch = watchRuns(data_dir);
    let program = await startProgram({ data_dir });
    try {
      const steady = await launchAndWait(program, 'steady', model);
      const steady_run = `${steady.id}.0.1`;
      const steady_keeper = keeperOf(data_dir, steady_run);
      const ready_before_kill: boolean[] = [];
      for (let loop = 1; loop <= loops; loop += 1) {
        const name = `loop-${loop}`;
        const round = await killDuring(program, name, model, random, watch);
        ready_before_kill.push(round.keeper !== null);
        program = await startProgram({ data_dir });
        await checkRound(program, name, model, round, watch);
        assert.equal(keeperOf(data_dir, steady_run), steady_keeper, 'steady has its keeper');
        const { body } = await program.api<Workload>('/v1/workloads/steady');
        assert.equal(body.state, 'running');
        assert.equal(body.restarts, 0);
        await removeAndWait(program, name, watch);
      }
      t.diagnostic(`${ready_before_kill.filter(Boolean).length} kills came after a keeper began`);
      assert.deepEqual(watch.keepers.get(steady_run), new Set([steady_keeper]));
    } finally {
      await cleanUp(data_dir, program);
    }
  },
);

test('an engine that ends while nobody is there: how it ended is still known', real, async () => {
  const data_dir = temporaryFolder();
  const model = join(data_dir, 'known.gguf');
  writeKnownAnswerModel(model);
  let program = await startProgram({ data_dir });
  try {
    const { id } = await launchAndWait(program, 'shot', model);
    await program.kill();
    killRun(data_dir, `${id}.0.1`, ['engine']);
    await until(
      () => runProcesses(data_dir).length === 0,
      10_000,
      () => 'its keeper did not end',
    );
    program = await startProgram({ data_dir });
    await until(
      async () => {
        const { body } = await program.api<Workload>('/v1/workloads/shot');
        return body.state === 'running' && body.placement?.run_epoch === 2;
      },
      30_000,
      () => 'it did not come back',
    );
    const { body } = await program.api<{ items: WorkloadEvent[] }>('/v1/workloads/shot/events');
    const ended = body.items.find(({ code }) => code === 'engine_exited');
    assert.ok(ended !== undefined, JSON.stringify(body.items));
    assert.match(ended.message, /signal SIGKILL/);
    assert.deepEqual(ended.details.exit, { code: 137, signal: 'SIGKILL', out_of_memory: false });
  } finally {
    await cleanUp(data_dir, program);
  }
});

type Round = {
  idempotency_key: string;
  /** The launch's 201 came before the kill. */
  acknowledged: Workload | null;
  /** A keeper owned its run when the program was dead; its run, where one did. */
  keeper: { run: string; pid: number } | null;
};

/** Asks for a launch and kills the program somewhere between that and a little after it runs. */
async function killDuring(
  program: Program,
  name: string,
  model: string,
  random: Random,
  watch: Watch,
): Promise<Round> {
  // A third within the first moments, where records are made; the rest over the whole launch.
  const span_ms = fraction(random) < 0.33 ? 60 : launch_ms * 1.2;
  const kill_at = systemClock.monotonic() + fraction(random) * span_ms;
  const idempotency_key = `key-${name}-${seed}`;
  const asked = ask(program, name, model, idempotency_key).catch(() => null);
  while (systemClock.monotonic() < kill_at) {
    watch.look();
    await systemClock.sleep(Math.min(20, Math.max(1, kill_at - systemClock.monotonic())));
  }
  await program.kill();
  const answer = await asked;
  if (answer !== null) assert.equal(answer.status, 201);
  watch.look();
  const run = runsOf(program.data_dir).find((found) => found.startsWith(answer?.body.id ?? '?'));
  const pid = run === undefined ? null : keeperOf(program.data_dir, run);
  return {
    idempotency_key,
    acknowledged: answer?.body ?? null,
    keeper: run === undefined || pid === null ? null : { run, pid },
  };
}

async function checkRound(
  program: Program,
  name: string,
  model: string,
  round: Round,
  watch: Watch,
): Promise<void> {
  const { data_dir } = program;
  if (round.acknowledged !== null) {
    const found = await program.api<Workload>(`/v1/workloads/${round.acknowledged.id}`);
    assert.equal(found.status, 200, `${name} was acknowledged and is lost`);
  }
  // Whoever got no answer asks again with the same key, and gets the one launch.
  const again = await ask(program, name, model, round.idempotency_key);
  assert.equal(again.status, 201);
  const { id } = again.body;
  if (round.acknowledged !== null) assert.equal(id, round.acknowledged.id);
  await untilRunning(program, name, watch);
  const { body } = await program.api<{ items: Workload[] }>('/v1/workloads?limit=200');
  assert.deepEqual(body.items.map((workload) => workload.name).sort(), [name, 'steady'].sort());
  const engines = runProcesses(data_dir).filter(
    (found) => found.workload_id === id && found.part === 'engine',
  );
  assert.equal(engines.length, 1);
  if (round.keeper !== null) {
    const { run, pid } = round.keeper;
    assert.equal(keeperOf(data_dir, run), pid, `${name} was started again though it ran`);
  }
  const [shown] = body.items.filter((workload) => workload.id === id);
  assert.equal(shown?.placement?.run_epoch, 1, 'the first attempt is the one that runs');
  assert.equal(shown?.restarts, 0);
}

type Watch = {
  /** Looks at the machine, and fails where a workload has two engines or a run two keepers. */
  look(): void;
  /** Process ids of keepers that were seen, by run. */
  keepers: Map<string, Set<number | null>>;
};

function watchRuns(data_dir: string): Watch {
  const keepers: Watch['keepers'] = new Map();
  return {
    keepers,
    look() {
      const engines = runProcesses(data_dir).filter(({ part }) => part === 'engine');
      const seen = Map.groupBy(engines, ({ workload_id }) => workload_id);
      for (const [id, of_it] of seen) {
        assert.ok(of_it.length <= 1, `${id} has ${of_it.length} engines: ${JSON.stringify(of_it)}`);
      }
      for (const run of runsOf(data_dir)) {
        const pid = keeperOf(data_dir, run);
        if (pid === null) continue;
        const known = keepers.get(run) ?? new Set();
        keepers.set(run, known.add(pid));
        assert.equal(known.size, 1, `${run} was started twice`);
      }
    },
  };
}

function ask(program: Program, name: string, model: string, idempotency_key: string) {
  return program.api<Workload>('/v1/workloads', {
    body: { kind: 'endpoint', name, model },
    headers: { 'idempotency-key': idempotency_key },
  });
}

async function launchAndWait(program: Program, name: string, model: string): Promise<Workload> {
  const { status, body } = await ask(program, name, model, `first-${name}`);
  assert.equal(status, 201);
  await untilRunning(program, name, null);
  return body;
}

async function untilRunning(program: Program, name: string, watch: Watch | null): Promise<void> {
  let last = '';
  await until(
    async () => {
      watch?.look();
      const { body } = await program.api<Workload>(`/v1/workloads/${name}`);
      last = JSON.stringify(body);
      return body.state === 'running';
    },
    30_000,
    () => `${name} does not run: ${last}`,
  );
}

async function removeAndWait(program: Program, name: string, watch: Watch): Promise<void> {
  const { body } = await program.api<Workload>(`/v1/workloads/${name}`);
  assert.equal((await program.api(`/v1/workloads/${name}`, { method: 'DELETE' })).status, 202);
  await until(
    () => {
      watch.look();
      return !runsOf(program.data_dir).some((run) => run.startsWith(body.id));
    },
    20_000,
    () => `${name} was not removed`,
  );
  assert.ok(!runProcesses(program.data_dir).some(({ workload_id }) => workload_id === body.id));
}
