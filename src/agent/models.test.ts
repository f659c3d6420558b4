/**
 * The agent's models: wishes done once, runs that wait for whom they fetch, restarts, refusals.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { type FakeHub, startFakeHub } from '../../test/lib/fake-hub.ts';
import { writeKnownAnswerModel } from '../../test/lib/known-answer.ts';
import { keepingLog, type LogLine } from '../../test/lib/rig.ts';
import { safetensorsFile } from '../../test/lib/safetensors-writer.ts';
import type { DesiredModelFile } from '../contract/model-files.ts';
import { runName } from '../core/run.ts';
import { systemClock } from '../lib/clock.ts';
import { seededRandom } from '../lib/random.ts';
import { createDownloads } from '../models/download.ts';
import { createModelStore, modelFileId } from '../models/store.ts';
import { validateModel } from '../models/validate.ts';
import { openLocalModels } from './local-models.ts';
import { type AgentModels, createAgentModels } from './models.ts';

let hub: FakeHub;
const folder = mkdtempSync(join(tmpdir(), 'einsora-models-'));
const good = 'hf://o/good';
const run = { workload_id: 'w'.padEnd(26, '0'), replica: 0, run_epoch: 1 };
const never = new AbortController().signal;

before(async () => {
  hub = await startFakeHub();
  const path = join(folder, 'known.gguf');
  writeKnownAnswerModel(path);
  hub.put('o/good', 'good.gguf', readFileSync(path));
  hub.put('o/bad', 'bad.gguf', Buffer.from(`GGUF${'x'.repeat(400)}`));
  hub.put('o/gated', 'gated.gguf', readFileSync(path));
  hub.close_repo('o/gated', 'gated');
});
after(async () => {
  await hub.close();
  rmSync(folder, { recursive: true });
});
beforeEach(() => {
  hub.faults = {};
  hub.requests.length = 0;
});

function open(name: string) {
  const lines: LogLine[] = [];
  const cache_dir = join(folder, name);
  const trusted_origins = [hub.url, hub.files_origin];
  const models = openLocalModels({
    ...{ cache_dir, machine_id: 'm', platform: 'linux-x64', env: {} },
    sources: { hub_url: hub.url, net: { clock: systemClock, trusted_origins } },
    ...{ clock: systemClock, random: seededRandom(1), log: keepingLog(lines) },
  });
  const changes: (() => void)[] = [];
  models.onChange(() => {
    for (const one of changes.splice(0)) one();
  });
  return { models, lines, models_dir: join(cache_dir, 'models'), changes };
}
type Open = ReturnType<typeof open>;

function emptyStore(at: string) {
  const place = {
    folder: at,
    net: { clock: systemClock, trusted_origins: [] },
    random: seededRandom(1),
  };
  return createModelStore(place, createDownloads(place));
}

const idOf = (source: string) => modelFileId('m', 't', source);
const wish = (
  source: string,
  what: DesiredModelFile['wish'],
  number: number,
): DesiredModelFile => ({
  ...{ id: idOf(source), tenant_id: 't', source, wish: what, number, hub_token: null },
});
const fileOf = ({ models }: { models: AgentModels }, source: string) =>
  models.observed().files.find(({ id }) => id === idOf(source));

/** Waits for the report that says so. */
async function until(at: Open, isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise<void>((resolve) => at.changes.push(resolve));
}

test('a wish is carried out once, and reported with its number', async () => {
  const at = open('once');
  const files = [wish(good, 'fetch', 1)];
  at.models.learn({ files, askers: [] });
  at.models.learn({ files, askers: [] });
  await until(at, () => fileOf(at, good)?.done_wish === 1);
  const file = fileOf(at, good);
  assert.equal(file?.state, 'ready');
  assert.equal(file?.checked?.ok, true);
  assert.equal(file?.revision, hub.commit);
  at.models.learn({ files, askers: [] });
  assert.equal(hub.requests.filter(({ origin }) => origin === 'files').length, 1);
  at.models.learn({ files: [wish(good, 'check', 2)], askers: [] });
  await until(at, () => fileOf(at, good)?.done_wish === 2);
  at.models.learn({ files: [wish(good, 'remove', 3)], askers: [] });
  await until(at, () => fileOf(at, good)?.done_wish === 3);
  assert.equal(fileOf(at, good)?.state, 'removed');
  assert.deepEqual(readdirSync(join(at.models_dir, 'blobs')), []);
  at.models.learn({ files: [], askers: [] });
  assert.deepEqual(at.models.observed().files, [], 'what is no more is not told for ever');
  await at.models.stop();
});

test('what is here is known after a restart, and a wish that was cut short is begun again', async () => {
  const before_it = open('restart');
  before_it.models.learn({ files: [wish(good, 'fetch', 1)], askers: [] });
  await until(before_it, () => fileOf(before_it, good)?.done_wish === 1);
  await before_it.models.stop();
  const after_it = open('restart');
  assert.equal(fileOf(after_it, good)?.state, 'ready');
  assert.equal(fileOf(after_it, good)?.tenant_id, 't');
  hub.requests.length = 0;
  after_it.models.learn({ files: [wish(good, 'fetch', 1)], askers: [] });
  await until(after_it, () => fileOf(after_it, good)?.done_wish === 1);
  assert.equal(hub.requests.length, 0, 'it asked nobody');
  await after_it.models.stop();
});

test('a model that the validator refuses is not kept, and the rule is told', async () => {
  const at = open('refused');
  at.models.learn({ files: [wish('hf://o/bad', 'fetch', 1)], askers: [] });
  await until(at, () => fileOf(at, 'hf://o/bad')?.done_wish === 1);
  const file = fileOf(at, 'hf://o/bad');
  assert.deepEqual([file?.state, file?.code], ['failed', 'model_file_invalid']);
  assert.equal(file?.checked?.ok, false);
  assert.notEqual(file?.checked?.rule, null);
  assert.deepEqual(readdirSync(join(at.models_dir, 'blobs')), []);
  await at.models.stop();
});

test('a failed fetch is told with its code; a newer wish tries again', async () => {
  const at = open('again');
  const gated = 'hf://o/gated';
  at.models.learn({ files: [wish(gated, 'fetch', 1)], askers: [] });
  await until(at, () => fileOf(at, gated)?.done_wish === 1);
  assert.equal(fileOf(at, gated)?.code, 'hub_gated');
  at.models.learn({ files: [{ ...wish(gated, 'fetch', 2), hub_token: hub.token }], askers: [] });
  await until(at, () => fileOf(at, gated)?.done_wish === 2);
  assert.deepEqual([fileOf(at, gated)?.state, fileOf(at, gated)?.code], ['ready', null]);
  assert.ok(!JSON.stringify(at.models.observed()).includes(hub.token));
  await at.models.stop();
});

test('a run waits to hear for whom it fetches, and fetches with their token', async () => {
  const at = open('asker');
  const seen: number[] = [];
  const fetching = at.models.resolveForRun(run, 'hf://o/gated', (done) => seen.push(done), never);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(hub.requests.length, 0);
  at.models.learn({ files: [], askers: [] });
  const asker = { run: runName(run), tenant_id: 't', hub_token: hub.token };
  at.models.learn({ files: [], askers: [asker] });
  const found = await fetching;
  assert.ok(found.ok && existsSync(found.path));
  assert.ok(seen.length > 0);
  assert.equal(fileOf(at, 'hf://o/gated')?.state, 'ready');
  await at.models.stop();
});

test('a run that is called off while it waits or fetches ends, and nothing failed', async () => {
  const at = open('off');
  const off = new AbortController();
  const waiting = at.models.resolveForRun(run, good, () => {}, off.signal);
  off.abort();
  assert.equal((await waiting).ok, false);
  hub.faults = { stall_at: 1000 };
  const second = new AbortController();
  const asker = { run: runName(run), tenant_id: 't', hub_token: null };
  at.models.learn({ files: [], askers: [asker] });
  const fetching = at.models.resolveForRun(run, good, () => second.abort(), second.signal);
  assert.equal((await fetching).ok, false);
  assert.equal(fileOf(at, good), undefined);
  await at.models.stop();
});

test('a newer wish takes the place of one that is being done; stopping ends all', async () => {
  const at = open('newer');
  hub.faults = { stall_at: 1000 };
  at.models.learn({ files: [wish(good, 'fetch', 1)], askers: [] });
  await until(at, () => (fileOf(at, good)?.done_bytes ?? 0) > 0);
  at.models.learn({ files: [wish(good, 'remove', 2)], askers: [] });
  await until(at, () => fileOf(at, good)?.done_wish === 2);
  assert.equal(fileOf(at, good)?.state, 'removed');
  assert.deepEqual(readdirSync(join(at.models_dir, 'partial')), []);
  at.models.learn({ files: [wish(good, 'fetch', 3)], askers: [] });
  await until(at, () => (fileOf(at, good)?.done_bytes ?? 0) > 0);
  await at.models.stop();
  assert.equal(fileOf(at, good)?.done_wish, 2, 'what was cut short is not said to be done');
  assert.deepEqual(
    at.lines.filter(({ level }) => level === 'error'),
    [],
  );
});

test('a model of the catalog is one for every tenant: fetched, known after a restart, removed', async () => {
  const name = 'smollm2-135m';
  const home = join(folder, 'catalog', name);
  const path = join(folder, 'known.gguf');
  const make = () =>
    createAgentModels({
      ...{ machine_id: 'm', clock: systemClock, log: keepingLog([]), freeBytes: () => null },
      store: emptyStore(join(folder, 'catalog')),
      async resolve(_source, _asker, onProgress) {
        onProgress(5, 10);
        mkdirSync(home, { recursive: true });
        return { ok: true, path, name };
      },
      validate: validateModel,
      builtinFolder: (asked) => (asked === name && existsSync(home) ? home : null),
    });
  const models = make();
  const id = modelFileId('m', 'any', name);
  assert.equal(id, modelFileId('m', 'other', name));
  const file = { id, tenant_id: 't', source: name, hub_token: null };
  const done = async (at: AgentModels, wish: DesiredModelFile['wish'], number: number) => {
    at.learn({ files: [{ ...file, wish, number }], askers: [] });
    while (at.observed().files[0]?.done_wish !== number) {
      await new Promise<void>((resolve) => at.onChange(resolve));
    }
    return at.observed().files;
  };
  const [fetched, ...others] = await done(models, 'fetch', 1);
  assert.deepEqual([fetched?.state, fetched?.bytes, others.length], ['ready', 98_362_432, 0]);
  await models.stop();
  const again = make();
  assert.deepEqual(
    again.observed().files.map((one) => [one.id, one.state]),
    [[id, 'ready']],
  );
  const [removed] = await done(again, 'remove', 2);
  assert.equal(removed?.state, 'removed');
  assert.equal(existsSync(home), false);
});

test('safetensors are fetched with what an engine reads beside them, and validated as a folder', async () => {
  const at = open('folders');
  const one = safetensorsFile({ tensors: { a: { dtype: 'F32', shape: [2] } } });
  hub.put('o/mlx', 'model.safetensors', one);
  hub.put('o/mlx', 'config.json', Buffer.from('{"model_type":"llama"}'), { lfs: false });
  hub.put('o/mlx', 'modeling.py', Buffer.from('x'), { lfs: false });
  const source = 'hf://o/mlx';
  at.models.learn({ files: [wish(source, 'fetch', 1)], askers: [] });
  await until(at, () => fileOf(at, source)?.done_wish === 1);
  const file = fileOf(at, source);
  assert.deepEqual([file?.state, file?.format, file?.checked?.ok], ['ready', 'safetensors', true]);
  const names = readdirSync(join(at.models_dir, 'sets', idOf(source))).sort();
  assert.deepEqual(names, ['config.json', 'manifest.json', 'model.safetensors']);
  await at.models.stop();
});
