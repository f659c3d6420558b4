/**
 * The program killed under load, with a real engine: no client takes a cut answer for a whole one,
 * the records of all but the last moment are there, and the next start says that it was no clean
 * end. The engine goes on, and answers the next program's clients.
 */
import assert from 'node:assert/strict';
import { Agent } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../src/lib/clock.ts';
import { launch } from '../lib/bad-day.ts';
import { askOnce, type Told } from '../lib/chaos-client.ts';
import { writeCountingModel } from '../lib/known-answer.ts';
import { needs } from '../lib/parts.ts';
import { cleanUp, type Program, startProgram, temporaryFolder } from '../lib/program.ts';

const clients = 4;
const load_ms = 4000;
/** Within so long what has ended is in the store, however busy the machine. */
const written_ms = 2000;

test('a program killed under load loses records of its last moment alone, and says so', {
  ...needs('llama', 'bwrap', 'cgroup'),
  timeout: 180_000,
}, async () => {
  const data_dir = temporaryFolder();
  let program: Program | null = await startProgram({ data_dir });
  const agent = new Agent({ keepAlive: true });
  try {
    const path = join(data_dir, 'counts.gguf');
    const { sentence: expected } = writeCountingModel(path);
    const { code, document } = await launch(program, path);
    assert.equal(code, 0, JSON.stringify(document.error));
    const { key } = document;
    const body = { model: 'counts', messages: [{ role: 'user', content: 'Count.' }] };
    const told: (Told & { ended_at: number })[] = [];
    let killed_at = Number.POSITIVE_INFINITY;
    const ask = (url: string, kind: 'stream' | 'whole') =>
      askOnce({ url, key: key ?? '', agent, kind, expected, body });
    const { url } = program;
    const client = async (at: number) => {
      for (let turn = at; systemClock.monotonic() < killed_at; turn += 1) {
        const kind = turn % 2 === 0 ? 'stream' : 'whole';
        const one = await ask(url, kind);
        told.push({ ...one, ended_at: systemClock.monotonic() });
      }
    };
    const load = Array.from({ length: clients }, (_, at) => client(at));
    await systemClock.sleep(load_ms);
    killed_at = systemClock.monotonic();
    await program.kill();
    await Promise.all(load);
    const whole = told.filter(({ outcome }) => outcome === 'answered');
    assert.ok(whole.length > 0 && whole.every(({ ended_at }) => ended_at <= killed_at + 1000));

    program = await startProgram({ data_dir });
    assert.equal((await ask(program.url, 'stream')).outcome, 'answered', 'the same engine');
    for (const { request_id } of whole.filter(
      ({ ended_at }) => ended_at < killed_at - written_ms,
    )) {
      const found = await program.cli(['request', request_id ?? '', '--json']);
      assert.equal(found.code, 0, found.stderr);
      assert.match(found.stdout, /"outcome": ?"answered"/);
    }
    const top = await program.cli(['gateway', 'top', '--json']);
    assert.match(top.stdout, /"unclean": ?1\b/, top.stdout);
  } finally {
    agent.destroy();
    await cleanUp(data_dir, program);
  }
});
