/**
 * kill -9 of the whole program in the middle of many writes at once, again and again on one folder.
 *
 * Every answer that came is written down; after each start the store must hold exactly that, and of
 * what got no answer all or nothing. Moments come from a seed. EINSORA_KILL_LOOPS sets how often.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Workload, WorkloadEvent } from '../../src/contract/workloads.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { fraction, type Random, seededRandom } from '../../src/lib/random.ts';
import { writeKnownAnswerModel } from '../lib/known-answer.ts';
import { type Program, startProgram, temporaryFolder } from '../lib/program.ts';
import { checkIntegrity } from '../lib/store-check.ts';

const loops = Number(process.env.EINSORA_KILL_LOOPS ?? '20');
const seed = Number(process.env.EINSORA_KILL_SEED ?? '20261130');
const callers = 16;
/** No machine of a test has so much: what asks for it is recorded and waits. */
const too_big = 'cpu-8c-32g';

type Call = {
  name: string;
  key: string;
  acknowledged: Workload | null;
  deleted: boolean;
  /** Its answer did not come: it was under way when the program was killed. */
  cut: boolean;
};

test(`killed ${loops} times amid ${callers} writers: what was answered is there, once`, async (t) => {
  t.diagnostic(`seed ${seed}`);
  const data_dir = temporaryFolder();
  const model = join(data_dir, 'known.gguf');
  writeKnownAnswerModel(model);
  const random = seededRandom(seed);
  const calls: Call[] = [];
  const args = ['--offer-cpu', '1', '--offer-memory', '2GiB'];
  for (let loop = 1; loop <= loops; loop += 1) {
    const program = await startProgram({ data_dir, args, until_ready: false });
    try {
      await checkAll(program, calls.slice(-3 * callers), model);
      await writeUntilKilled(program, loop, model, random, calls);
    } finally {
      await program.kill();
    }
    assert.equal(await checkIntegrity(data_dir), 'ok', `loop ${loop}`);
  }
  const program = await startProgram({ data_dir, args, until_ready: false });
  try {
    await checkAll(program, calls, model);
    const cut = calls.filter((call) => call.cut).length;
    t.diagnostic(`${calls.length} calls, ${cut} under way when a kill came`);
    assert.ok(cut > loops && cut < calls.length, 'the kills missed the writes');
  } finally {
    await program.kill();
  }
});

async function writeUntilKilled(
  program: Program,
  loop: number,
  model: string,
  random: Random,
  calls: Call[],
): Promise<void> {
  const kill_at = systemClock.monotonic() + 20 + fraction(random) * 250;
  let is_over = false;
  let number = 0;
  const caller = async () => {
    while (!is_over) {
      number += 1;
      const name = `w-${loop}-${number}`;
      const call: Call = {
        name,
        key: `key-${name}`,
        acknowledged: null,
        deleted: false,
        cut: false,
      };
      calls.push(call);
      const answer = await launch(program, call, model).catch(() => null);
      call.cut = answer === null;
      if (answer === null) return;
      assert.equal(answer.status, 201, JSON.stringify(answer.body));
      call.acknowledged = answer.body;
      if (number % 3 !== 0) continue;
      const path = `/v1/workloads/${answer.body.id}`;
      const gone = await program.api(path, { method: 'DELETE' }).catch(() => null);
      if (gone?.status === 202) call.deleted = true;
    }
  };
  const writers = Array.from({ length: callers }, caller);
  await systemClock.sleep(Math.max(1, kill_at - systemClock.monotonic()));
  is_over = true;
  await program.kill();
  await Promise.all(writers);
}

/** Whoever got no answer asks again with the same key, and there is one workload either way. */
async function checkAll(program: Program, calls: Call[], model: string): Promise<void> {
  const left = [...calls];
  const checker = async () => {
    for (let call = left.shift(); call !== undefined; call = left.shift()) {
      await check(program, call, model);
    }
  };
  await Promise.all(Array.from({ length: callers }, checker));
}

async function check(program: Program, call: Call, model: string): Promise<void> {
  const again = await launch(program, call, model);
  assert.equal(again.status, 201, `${call.name}: ${JSON.stringify(again.body)}`);
  if (call.acknowledged !== null) assert.equal(again.body.id, call.acknowledged.id);
  call.acknowledged ??= again.body;
  const path = `/v1/workloads/${again.body.id}`;
  const { body } = await program.api<{ items: WorkloadEvent[] }>(`${path}/events?limit=200`);
  const numbers = body.items.map(({ number }) => number);
  assert.deepEqual(
    numbers,
    [...numbers.keys()].map((index) => index + 1),
    'no gap',
  );
  assert.equal(
    body.items.filter(({ kind, from_state }) => kind === 'state' && from_state === null).length,
    1,
  );
  if (call.deleted) assert.equal(body.items.at(-1)?.to_state, 'deleted', `${call.name} came back`);
}

function launch(program: Program, call: Call, model: string) {
  return program.api<Workload>('/v1/workloads', {
    body: { kind: 'endpoint', name: call.name, model, gpu_class: too_big },
    headers: { 'idempotency-key': call.key },
  });
}
