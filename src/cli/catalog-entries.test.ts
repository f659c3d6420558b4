/**
 * Classes, images and regions from the command line, against a real API.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { now_ms } from '../../test/lib/fake-records.ts';
import { createRig, type Rig } from '../../test/lib/rig.ts';
import { type RigServer, serveRig } from '../../test/lib/rig-server.ts';
import { type CliResult, runCli } from '../../test/lib/run-cli.ts';

let rig: Rig;
let served: RigServer;
beforeEach(async () => {
  rig = await createRig();
  rig.clock.stepWall(now_ms - rig.clock.now());
  served = await serveRig(rig);
});
afterEach(async () => {
  await served.close();
  await rig.close();
});

const cli = (argv: string[], input?: string): Promise<CliResult> =>
  runCli(argv, { data_dir: served.data_dir, ...(input === undefined ? {} : { input }) });
const lines = ({ stdout }: CliResult) => stdout.trimEnd().split('\n');
const shown = async (...argv: string[]) => JSON.parse((await cli([...argv, '--json'])).stdout);

test('a class is taken over, changed, put back, retired, and as it came', async () => {
  const entry = await shown('classes', 'show', 'cpu-1c-2g');
  assert.equal(entry.origin, 'built-in');
  writeFileSync(join(served.data_dir, 'mine.json'), JSON.stringify({ ...entry, weight: 3 }));
  const set = await cli(['classes', 'set', 'cpu-1c-2g', 'mine.json']);
  assert.equal(set.stderr, 'cpu-1c-2g is as the file says.\n');
  const row = lines(await cli(['classes', 'ls'])).find((line) => line.startsWith('cpu-1c-2g'));
  assert.deepEqual(row?.split(/ {2,}/), [
    ...['cpu-1c-2g', 'cpu', '1', '2 GiB', '-', '3', 'all', 'changed'],
  ]);
  const text = (await cli(['classes', 'show', 'cpu-1c-2g'])).stdout;
  assert.match(text, /^changed +just now by op$/m);
  assert.equal((await cli(['classes', 'rm', 'cpu-1c-2g'])).code, 0);
  assert.equal((await shown('classes', 'show', 'cpu-1c-2g')).origin, 'retired');
  await cli(['classes', 'reset', 'cpu-1c-2g']);
  assert.deepEqual(await shown('classes', 'show', 'cpu-1c-2g'), entry);
});

test('an image comes from stdin, and says how it is run', async () => {
  const image = {
    ...{ title: 'Our tools', kinds: ['instance'] },
    runtimes: [{ accelerator: 'cpu', reference: 'registry.example/tools:3' }],
  };
  const set = await cli(['images', 'set', 'tools', '-'], JSON.stringify(image));
  assert.equal(set.stderr, 'tools is added.\n');
  const text = (await cli(['images', 'show', 'tools'])).stdout;
  assert.match(text, /^on cpu +registry\.example\/tools:3, begins sleep infinity, as user 0$/m);
  // What was shown can be put back as it is.
  const again = await cli(
    ['images', 'set', 'tools', '-'],
    JSON.stringify(await shown('images', 'show', 'tools')),
  );
  assert.equal(again.code, 0, again.stderr);
  assert.ok(
    (await shown('images', 'ls')).items.some((one: { name: string }) => one.name === 'tools'),
  );
});

test('what is no entry is refused with a way to see one', async () => {
  const wrong = await cli(['classes', 'set', 'tiny', '-'], 'not json');
  assert.equal(wrong.code, 2);
  assert.match(wrong.stderr, /is no JSON/);
  assert.match(wrong.stderr, /bin\/einsora classes show <name> --json/);
  const missing = await cli(['classes', 'set', 'tiny', 'nowhere.json']);
  assert.match(missing.stderr, /nowhere\.json cannot be read/);
  const unknown = await cli(['images', 'show', 'nothing']);
  assert.match(unknown.stderr, /There is no image nothing in the catalog/);
});

test('regions are listed, and a machine is said to be in another one', async () => {
  assert.deepEqual((await shown('regions')).items, [{ region: 'local', machines: 1 }]);
  const moved = await cli(['machine', 'move', 'desk', '--region', 'attic']);
  assert.equal(moved.stderr, 'desk is in region attic now.\n');
  assert.deepEqual(lines(await cli(['regions'])), ['REGION  MACHINES', 'attic   1']);
  const wrong = await cli(['machine', 'move', 'desk', '--region', 'The attic']);
  assert.match(wrong.stderr, /use lower-case letters, digits and dashes/);
});
