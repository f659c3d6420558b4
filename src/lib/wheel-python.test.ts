import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Bench, fakePython, makeBench } from '../../test/lib/wheel-bench.ts';
import { systemClock } from './clock.ts';
import { fetchPython, findPython } from './wheel-python.ts';

function look(bench: Bench) {
  return { env: { PATH: bench.bin }, clock: systemClock };
}

test('the newest usable Python is found by what it says of itself', async () => {
  using bench = makeBench();
  bench.script('python3', fakePython([3, 12, 1], '/opt/py/bin/python3.12', '/opt/py'));
  bench.script('python3.13', 'exit 1');
  assert.deepEqual(await findPython(look(bench)), {
    command: join(bench.bin, 'python3'),
    executable: '/opt/py/bin/python3.12',
    prefix: '/opt/py',
    version: '3.12.1',
  });
});

test('a Python that is too old, of another kind, or talks nonsense is none', async () => {
  using bench = makeBench();
  bench.script('python3', fakePython([3, 9, 18], '/usr/bin/python3.9', '/usr'));
  bench.script('python3.11', fakePython([3, 11, 0], '/usr/bin/pypy3', '/usr', false));
  bench.script('python3.10', 'echo hello');
  assert.equal(await findPython(look(bench)), null);
  assert.equal(await fetchPython(look(bench)), null);
});

test('uv brings a Python where there is none, and it is found from then on', async () => {
  using bench = makeBench();
  const managed = join(bench.bin, 'managed');
  const mark = join(bench.root, 'fetched');
  bench.script('managed', fakePython([3, 12, 4], managed, bench.root));
  bench.script(
    'uv',
    `case "$2" in
      install) : > ${mark};;
      find) [ -e ${mark} ] && echo ${managed} || exit 2;;
    esac`,
  );
  assert.equal(await findPython(look(bench)), null);
  assert.equal((await fetchPython(look(bench)))?.executable, managed);
  assert.equal((await findPython(look(bench)))?.version, '3.12.4');
});
