/**
 * An engine that loses its device while it serves: clients get errors, the gateway tells the
 * machine's agent, and the agent has it started again (ADR-0074). The whole program, for real.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { chatWith, events, launch, show } from '../lib/bad-day.ts';
import { writeKnownAnswerModel } from '../lib/known-answer.ts';
import { moodyServer } from '../lib/moody-server.ts';
import { needs } from '../lib/parts.ts';
import { cleanUp, startProgram, temporaryFolder, until } from '../lib/program.ts';

test('a lone engine that fails at every question and says it is well is started anew, and answers', {
  ...needs('bwrap', 'cgroup', 'python'),
  timeout: 400_000,
}, async () => {
  const data_dir = temporaryFolder();
  const bin = join(data_dir, 'bin');
  const become = moodyServer(bin, 'well');
  const env = { PATH: `${bin}:${process.env.PATH}` };
  const program = await startProgram({ data_dir, args: ['--offer-cpu', '2'], env });
  try {
    const path = join(data_dir, 'model.gguf');
    writeKnownAnswerModel(path);
    const { code, document } = await launch(program, path);
    assert.equal(code, 0, JSON.stringify(document.error));
    const { id, name: model } = document.workload;
    const question = () => chatWith({ program, key: document.key ?? '', model });
    assert.deepEqual(await question(), { status: 200, said: 'well' });
    const before = (await show(program, id)).placement?.run_epoch ?? 0;

    become('failing');
    let looks = 0;
    const isFound = async () => {
      // Somebody who asks once a second or so, which is all that the gateway goes by.
      if (looks % 40 === 0) assert.ok((await question()).status >= 500);
      looks += 1;
      return (await events(program, id)).some((event) => event.code === 'engine_stuck');
    };
    await until(isFound, 300_000, () => 'nobody found it');
    become('well');
    await until(
      async () => (await show(program, id)).state === 'running',
      60_000,
      () => 'it did not come back',
    );
    await until(
      async () => (await question()).status === 200,
      30_000,
      () => 'it does not answer',
    );
    const after = (await show(program, id)).placement?.run_epoch ?? 0;
    assert.equal(after, before + 1, 'one attempt more');
  } finally {
    await cleanUp(data_dir, program);
  }
});
