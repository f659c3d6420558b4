/**
 * A stop that comes while tools are still being fetched.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { findProgram } from '../../src/lib/which.ts';
import { onlyFrom, pythonTool, show, toolFolder } from '../lib/bad-day.ts';
import { writeKnownAnswerModel } from '../lib/known-answer.ts';
import { needs } from '../lib/parts.ts';
import { runProcesses, runsOf } from '../lib/processes.ts';
import { cleanUp, startProgram, temporaryFolder, until } from '../lib/program.ts';
import { hangOnInstall } from '../lib/wheel-bench.ts';

test(
  'a stop while the engine is fetched ends the fetching and leaves nothing',
  needs('bwrap', 'python'),
  async () => {
    const data_dir = temporaryFolder();
    const [model, pid_file] = [join(data_dir, 'known.gguf'), join(data_dir, 'pid')];
    writeKnownAnswerModel(model);
    const bwrap = { link: findProgram('bwrap', process.env.PATH) ?? '/usr/bin/bwrap' };
    const python3 = pythonTool(hangOnInstall(pid_file));
    const PATH = toolFolder(join(data_dir, 'bin'), { bwrap, python3 });
    const cache = join(data_dir, 'own-cache');
    const env = { ...onlyFrom(join(data_dir, 'index')), PATH, EINSORA_CACHE_DIR: cache };
    const program = await startProgram({ data_dir, env });
    try {
      const args = ['launch', 'endpoint', model, '--name', 'early', '--detach', '--json'];
      const launched = await program.cli(args);
      assert.equal(launched.code, 0, launched.stderr);
      await until(
        () => existsSync(pid_file) && readFileSync(pid_file, 'utf8').trim() !== '',
        20_000,
        () => 'the package client was not called',
      );
      const pid = readFileSync(pid_file, 'utf8').trim();
      const during = await show(program, 'early');
      assert.equal(during.state, 'provisioning');
      assert.equal(during.stages.at(-1)?.name, 'engine');
      const stopped = await program.cli(['stop', 'early', '--json']);
      assert.equal(stopped.code, 0, stopped.stderr);
      const after = await show(program, 'early');
      assert.deepEqual([after.state, after.intent], ['stopped', 'stopped']);
      assert.equal(existsSync(`/proc/${pid}`), false, 'the package client is gone');
      assert.deepEqual(runsOf(data_dir), []);
      assert.deepEqual(runProcesses(data_dir), []);
      assert.deepEqual(readdirSync(join(cache, 'tools')), []);
    } finally {
      await cleanUp(data_dir, program);
    }
  },
);
