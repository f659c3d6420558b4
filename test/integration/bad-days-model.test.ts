/**
 * Model files that are none: refused before anything of them is run, or by the engine itself.
 */
import assert from 'node:assert/strict';
import { truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { events, launch, show } from '../lib/bad-day.ts';
import { entry, ggufFile } from '../lib/gguf-writer.ts';
import { successorModel, writeKnownAnswerModel } from '../lib/known-answer.ts';
import { needs } from '../lib/parts.ts';
import { runProcesses, runsOf } from '../lib/processes.ts';
import { cleanUp, type Program, startProgram, temporaryFolder } from '../lib/program.ts';

const real = needs('llama', 'bwrap', 'cgroup');
const data_dir = temporaryFolder();
let program: Program | null = null;

before(async () => {
  if (real.skip === false) program = await startProgram({ data_dir });
});
after(() => cleanUp(data_dir, program));

function running(): Program {
  assert.ok(program !== null);
  return program;
}

async function assertRefused(model: string, why: RegExp): Promise<void> {
  const { code, document } = await launch(running(), model);
  assert.equal(code, 6);
  assert.equal(document.error?.code, 'model_file_invalid');
  assert.match(document.error?.message ?? '', why);
  assert.equal((await show(running(), document.workload.id)).state, 'failed');
  assert.ok(!runsOf(data_dir).some((run) => run.includes(document.workload.id)), 'it never ran');
}

test('a pickle named .gguf is refused and called what it is', real, async () => {
  const model = join(data_dir, 'pickle.gguf');
  writeFileSync(model, Buffer.concat([Buffer.from([0x80, 4, 0x95]), Buffer.alloc(4096, 'x')]));
  await assertRefused(
    model,
    /a Python pickle, neither GGUF nor safetensors; loading one runs its code/,
  );
});

test('a GGUF cut short is refused, in its header and in its tensors', real, async () => {
  for (const [name, bytes] of Object.entries({ header: 2000, tensors: 1_000_000 })) {
    const model = join(data_dir, `cut-${name}.gguf`);
    writeKnownAnswerModel(model);
    truncateSync(model, bytes);
    await assertRefused(model, /The file ends before its (header|last tensor) does/);
  }
});

test('an engine that ends while loading is tried three times, then it failed', real, async () => {
  const words = ['▁on', '▁and'];
  const model = successorModel({ name: 'odd', words, ends: false, width: 64, blocks: 1 });
  // The rules of the format hold; that no engine knows the architecture, only an engine can say.
  const entries = model.entries.map((one) => {
    const key = String(one.key);
    if (key === 'general.architecture') return entry.string(key, 'einsoraodd');
    return { ...one, key: key.replace(/^llama\./, 'einsoraodd.') };
  });
  const path = join(data_dir, 'odd.gguf');
  writeFileSync(path, ggufFile({ ...model, entries }));
  const { code, document } = await launch(running(), path);
  assert.equal(code, 6);
  assert.equal(document.error?.code, 'too_many_restarts', JSON.stringify(document.error));
  assert.match(document.error?.message ?? '', /ended 3 times .*ended by itself \(exit code 1\)/);
  assert.match(document.log_tail.join('\n'), /einsoraodd/, 'the engine says itself what it lacks');
  const codes = (await events(running(), document.workload.id)).map((event) => event.code);
  assert.equal(codes.filter((one) => one === 'engine_exited').length, 2);
  const left = runProcesses(data_dir).filter((one) => one.workload_id === document.workload.id);
  assert.deepEqual(left, []);
});
