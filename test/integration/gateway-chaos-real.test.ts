/**
 * Two replicas of a real llama.cpp in the whole program, one killed again and again under load:
 * nobody loses a request before its answer began, no answer that is not whole looks so, and the
 * records in the store say of each request what its client says.
 *
 * EINSORA_REAL_KILLS and EINSORA_REAL_KILL_MS set how often and how far apart.
 */
import assert from 'node:assert/strict';
import { Agent } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { openStore } from '../../src/controlplane/open-store.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { systemRandom } from '../../src/lib/random.ts';
import type { Row } from '../../src/store/sql.ts';
import { launch, show } from '../lib/bad-day.ts';
import { askOnce, type ChaosKind, type Told } from '../lib/chaos-client.ts';
import { keepingLog } from '../lib/keeping-log.ts';
import { writeCountingModel } from '../lib/known-answer.ts';
import { needs } from '../lib/parts.ts';
import { killRun } from '../lib/processes.ts';
import { cleanUp, type Program, startProgram, temporaryFolder, until } from '../lib/program.ts';
import { select } from '../lib/rig.ts';

const kills = Number(process.env.EINSORA_REAL_KILLS ?? '2');
const kill_ms = Number(process.env.EINSORA_REAL_KILL_MS ?? '3000');
const clients = 8;
const kinds: ChaosKind[] = ['stream', 'whole', 'stream', 'whole', 'leaver'];

type Endpoint = { program: Program; data_dir: string; id: string };

test('of two real engines one dies again and again: nothing is lost, all is recorded', {
  ...needs('llama', 'bwrap', 'cgroup'),
  timeout: 180_000 + kills * (kill_ms + 60_000),
}, async (t) => {
  const data_dir = temporaryFolder();
  let program: Program | null = await startProgram({ data_dir, args: ['--offer-cpu', '2'] });
  const agent = new Agent({ keepAlive: true });
  try {
    const path = join(data_dir, 'counts.gguf');
    const { sentence, completion_tokens } = writeCountingModel(path);
    const { code, document } = await launch(program, path, '--replicas', '2');
    assert.equal(code, 0, JSON.stringify(document.error));
    const { id, name } = document.workload;
    await untilReady(program, id);

    const told: Told[] = [];
    let is_over = false;
    const { url } = program;
    const client = async (number: number) => {
      for (let turn = number; !is_over; turn += 1) {
        const kind = kinds[turn % kinds.length] ?? 'stream';
        const messages = [{ role: 'user', content: `Count for client ${number}.` }];
        const asked = { url, key: document.key ?? '', agent, kind, expected: sentence };
        told.push(await askOnce({ ...asked, body: { model: name, messages } }));
      }
    };
    const load = Array.from({ length: clients }, (_, number) => client(number));
    for (let turn = 0; turn < kills; turn += 1) {
      await systemClock.sleep(kill_ms);
      await killOne({ program, data_dir, id }, turn % 2);
      await untilReady(program, id);
    }
    is_over = true;
    await Promise.all(load);
    await program.interrupt();
    program = null;
    judge(told, await recordsIn(data_dir), completion_tokens);
    t.diagnostic(summary(told));
  } finally {
    agent.destroy();
    await cleanUp(data_dir, program);
  }
});

async function killOne({ program, data_dir, id }: Endpoint, replica: number): Promise<void> {
  const { replica_states } = await show(program, id);
  const found = replica_states.find((one) => one.replica === replica);
  killRun(data_dir, `${id}.${replica}.${found?.run_epoch}`, ['engine']);
  const isNoticed = async () => (await show(program, id)).replicas_ready < 2;
  await until(isNoticed, 10_000, () => 'nobody noticed');
}

function untilReady(program: Program, id: string): Promise<void> {
  const isSo = async () => (await show(program, id)).replicas_ready === 2;
  return until(isSo, 60_000, () => 'they are not both ready');
}

type RecordRow = Row & {
  request_id: string;
  outcome: string;
  status: number | null;
  code: string | null;
  attempts: number;
  completion_tokens: number;
  is_estimated: number;
};

/** What a program that has ended left in its store. */
async function recordsIn(data_dir: string): Promise<RecordRow[]> {
  const world = { clock: systemClock, random: systemRandom, log: keepingLog([]) };
  const store = await openStore({ data_dir, database_url: null, ...world });
  try {
    return await select<RecordRow>(store, 'select * from requests');
  } finally {
    await store.close();
  }
}

function judge(told: readonly Told[], records: readonly RecordRow[], tokens: number): void {
  const wrong = told.filter(({ outcome }) => outcome === 'broken' || outcome === 'refused');
  assert.deepEqual(wrong, [], 'each is whole, or was told to be cut after it had begun');
  assert.equal(records.length, told.length, 'a record for each request');
  const of = new Map(records.map((record) => [record.request_id, record]));
  for (const one of told) {
    const record = of.get(one.request_id ?? '');
    const place = JSON.stringify({ one, record });
    assert.ok(record !== undefined, place);
    if (one.outcome === 'client_left' && leftTooLate(record, tokens)) continue;
    const code = one.outcome === 'client_left' ? 'client_left' : one.code;
    assert.deepEqual([record.outcome, record.code], [one.outcome, code], place);
    if (one.outcome === 'answered') {
      assert.deepEqual([record.completion_tokens, record.is_estimated], [tokens, 0], place);
    }
    if (one.outcome === 'cut') {
      const got = one.text.split(' ').length;
      assert.equal(record.is_estimated, 1, place);
      assert.ok(Math.abs(record.completion_tokens - got) <= 1, place);
    }
  }
}

/**
 * Who leaves in the very moment in which the engine dies is told nothing more; and who leaves once
 * the engine's whole answer was handed over has been answered.
 */
function leftTooLate(record: RecordRow, tokens: number): boolean {
  if (record.outcome === 'cut') return true;
  const is_whole = record.completion_tokens === tokens && record.is_estimated === 0;
  return record.outcome === 'answered' && is_whole;
}

function summary(told: readonly Told[]): string {
  const counts = Object.entries(Object.groupBy(told, ({ outcome }) => outcome));
  return counts.map(([outcome, all]) => `${all?.length} ${outcome}`).join(', ');
}
