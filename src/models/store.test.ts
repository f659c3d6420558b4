/**
 * The folder of models on bad days: a disk that fills up in the middle, what was left long ago, two
 * processes that want the same, damaged manifests.
 */
import assert from 'node:assert/strict';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { type FakeHub, sha256, startFakeHub } from '../../test/lib/fake-hub.ts';
import { needs } from '../../test/lib/parts.ts';
import { systemClock } from '../lib/clock.ts';
import { exec } from '../lib/exec.ts';
import { seededRandom } from '../lib/random.ts';
import { createDownloads } from './download.ts';
import type { SourceError } from './source-error.ts';
import { parseModelName } from './source-name.ts';
import { planSource } from './source-plan.ts';
import { createModelStore } from './store.ts';

let hub: FakeHub;
const big = Buffer.concat([Buffer.from('GGUF'), Buffer.from(seededRandom(4).bytes(3_000_000))]);
const never = new AbortController().signal;
const hour = 3600_000;

before(async () => {
  hub = await startFakeHub();
  hub.put('o/big', 'big.gguf', big);
});
after(() => hub.close());
beforeEach(() => {
  hub.faults = {};
  hub.requests.length = 0;
});

function folder() {
  const path = mkdtempSync(join(tmpdir(), 'einsora-store-'));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

function open(path: string) {
  const trusted_origins = [hub.url, hub.files_origin];
  const patience = { answer_ms: 5000, window_ms: 5000, least_bytes: 1, retry_ms: 1 };
  const net = { clock: systemClock, trusted_origins, patience };
  const place = { folder: path, net, random: seededRandom(1), freeBytes: () => 1e12 };
  const store = createModelStore(place, createDownloads(place));
  const bring = async (signal = never) => {
    const name = parseModelName('hf://o/big');
    assert.ok(name.kind === 'hub');
    const plan = await planSource({ net, hub_url: hub.url }, name, null, signal);
    return store.bring({ id: 'id', tenant_id: 't', source: 's' }, plan, signal, () => {});
  };
  return { store, bring };
}

test(
  'a disk that fills up is said, keeps nothing, and is tried again',
  needs('tmpfs'),
  async () => {
    using at = folder();
    const mounted = await exec('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', at.path], {
      timeout_ms: 5000,
    });
    assert.equal(mounted.code, 0, mounted.stderr);
    try {
      const { store, bring } = open(at.path);
      await assert.rejects(bring(), (error: SourceError) => {
        assert.equal(error.code, 'disk_full');
        return true;
      });
      assert.deepEqual(readdirSync(join(at.path, 'partial')), []);
      const grown = await exec('mount', ['-o', 'remount,size=16m', at.path], { timeout_ms: 5000 });
      assert.equal(grown.code, 0, grown.stderr);
      assert.equal((await bring()).files[0]?.sha256, sha256(big));
      await store.remove('id');
    } finally {
      await exec('umount', [at.path], { timeout_ms: 5000 });
    }
  },
);

test('two agents of one folder fetch a content once, and both have it', async () => {
  using at = folder();
  const [one, other] = [open(at.path), open(at.path)];
  hub.faults = { stall_at: 1_000_000 };
  const first = one.bring();
  while (hub.requests.filter(({ origin }) => origin === 'files').length === 0) {
    await systemClock.sleep(5);
  }
  const second = other.bring();
  await systemClock.sleep(300); // it looks at the lock twice
  assert.equal(hub.requests.filter(({ origin }) => origin === 'files').length, 1);
  const { requests } = hub;
  hub.faults = {};
  hub.cut();
  assert.deepEqual((await first).files, (await second).files);
  assert.equal(
    requests.filter(({ origin }) => origin === 'files').length,
    2,
    'the cut and the rest',
  );
  assert.deepEqual(readdirSync(join(at.path, 'partial')), []);
});

test('what was left a week ago goes, what is used or younger stays', async () => {
  using at = folder();
  const { store, bring } = open(at.path);
  await bring();
  const put = (name: string, age_ms: number, content = 'x') => {
    const path = join(at.path, name);
    writeFileSync(path, content);
    const when = (systemClock.now() - age_ms) / 1000;
    utimesSync(path, when, when);
    return path;
  };
  const old = 8 * 24 * hour;
  const held = JSON.stringify({ pid: process.pid, folder: '' });
  const gone = [put('partial/a.part', old), put('blobs/orphan', old), put('pending/x.json', old)];
  mkdirSync(join(at.path, 'sets', '.draft'));
  utimesSync(join(at.path, 'sets', '.draft'), 0, 0);
  const stays = [
    put('partial/b.part', hour),
    put('blobs/young', hour),
    put('partial/c.part', old),
    put('partial/c.lock', 0, held),
    join(at.path, 'blobs', sha256(big)),
  ];
  utimesSync(join(at.path, 'blobs', sha256(big)), 0, 0);
  await store.sweep();
  for (const path of gone) assert.equal(existsSync(path), false, path);
  for (const path of stays) assert.equal(existsSync(path), true, path);
  assert.deepEqual(readdirSync(join(at.path, 'sets')), ['id']);
});

test('a model that is damaged counts as not there, and is brought again', async () => {
  using at = folder();
  const { store, bring } = open(at.path);
  const manifest = await bring();
  const manifest_path = join(at.path, 'sets', 'id', 'manifest.json');
  const text = readFileSync(manifest_path, 'utf8');
  for (const bad of [
    '',
    '{',
    '{}',
    text.replace('big.gguf', '../../x'),
    text.replace('"id"', '"di"'),
  ]) {
    writeFileSync(manifest_path, bad);
    assert.equal(store.find('id'), null, bad.slice(0, 40));
    assert.deepEqual(store.list(), []);
  }
  await bring();
  truncateSync(store.pathOf(manifest, 'big.gguf'), 100);
  assert.equal(store.find('id'), null);
  assert.equal((await bring()).files[0]?.sha256, sha256(big));
  assert.deepEqual(readFileSync(store.pathOf(manifest, 'big.gguf')), big);
});

test('an id that is none is no path', async () => {
  using at = folder();
  const { store } = open(at.path);
  for (const id of ['../x', '', '.', 'a/b', '/tmp', 'a\0b']) {
    await assert.rejects(store.remove(id), /an id of a model that is none/, id);
    assert.equal(store.find(id), null);
  }
});
