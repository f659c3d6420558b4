/**
 * Downloads against a hub over TLS: whole, resumed, shared, refused.
 */
import assert from 'node:assert/strict';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { type FakeHub, sha256, startFakeHub } from '../../test/lib/fake-hub.ts';
import { fixOf, sentenceOf } from '../core/reasons.ts';
import { systemClock } from '../lib/clock.ts';
import { seededRandom } from '../lib/random.ts';
import { Secret } from '../lib/secret.ts';
import { createDownloads } from './download.ts';
import type { DownloadsOptions } from './download-files.ts';
import { SourceError } from './source-error.ts';
import type { Net } from './source-http.ts';
import { parseModelName } from './source-name.ts';
import { planSource, type SourcePlan } from './source-plan.ts';
import { createModelStore, modelFileId } from './store.ts';

let hub: FakeHub;
const big = Buffer.concat([Buffer.from('GGUF'), Buffer.from(seededRandom(3).bytes(600_000))]);
const small = Buffer.from('GGUF and some more');
const hash = sha256(big);

before(async () => {
  hub = await startFakeHub({ tls: true });
  hub.put('o/big', 'big.gguf', big);
  hub.put('o/small', 'small.gguf', small, { lfs: false });
  hub.put('o/gated', 'big.gguf', big);
  hub.close_repo('o/gated', 'gated');
  for (const part of [1, 2])
    hub.put('o/split', `m-0000${part}-of-00002.gguf`, Buffer.from(`GGUF part ${part} of it`));
});
after(() => hub.close());
beforeEach(() => {
  hub.faults = {};
  hub.requests.length = 0;
});

function open(over: { net?: Partial<Net>; freeBytes?: DownloadsOptions['freeBytes'] } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-download-'));
  return { ...reopen(folder, over), [Symbol.dispose]: () => rmSync(folder, { recursive: true }) };
}

function reopen(
  folder: string,
  over: { net?: Partial<Net>; freeBytes?: DownloadsOptions['freeBytes'] } = {},
) {
  const patience = { answer_ms: 5000, window_ms: 150, least_bytes: 1000, retry_ms: 1 };
  const trusted_origins = [hub.url, hub.files_origin];
  const net: Net = { clock: systemClock, trusted_origins, ca: hub.ca ?? '', patience, ...over.net };
  const options = {
    folder,
    net,
    random: seededRandom(1),
    freeBytes: over.freeBytes ?? (() => 1e12),
  };
  const downloads = createDownloads(options);
  const store = createModelStore(options, downloads);
  const part = join(folder, 'partial', `${hash}.part`);
  const left = () => readdirSync(join(folder, 'partial'));
  return { folder, net, options, downloads, store, part, left };
}
type Open = ReturnType<typeof reopen>;

function plan(at: Open, text: string, token: string | null = null): Promise<SourcePlan> {
  const name = parseModelName(text);
  assert.ok(name.kind === 'hub' || name.kind === 'https', text);
  const sources = { net: at.net, hub_url: hub.url };
  return planSource(sources, name, token === null ? null : new Secret(token), never);
}
const wanted = (id: string) => ({ id, tenant_id: 't', source: `source of ${id}` });
const never = new AbortController().signal;
const nothing = () => {};

async function bring(at: Open, text: string, signal = never, seen: number[] = []) {
  const planned = await plan(at, text);
  return at.store.bring(wanted('id'), planned, signal, (done) => seen.push(done));
}

const contentRequests = () => hub.requests.filter(({ origin }) => origin === 'files');

async function refusal(at: Open, work: Promise<unknown>) {
  const error = await work.then(
    () => assert.fail('it was not refused'),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof SourceError, String(error));
  const { code, details } = error;
  const says = sentenceOf(code, details);
  const fix = fixOf(code, { name: 'chat', ...details }) ?? '';
  for (const line of [says, fix]) assert.doesNotMatch(line, /\{|undefined|signed|hf_fake/);
  assert.ok(
    !existsSync(at.part) || ['download_stalled', 'hub_failing', 'disk_full'].includes(code),
    code,
  );
  assert.deepEqual(
    at.left().filter((name) => name.endsWith('.lock')),
    [],
    'no lock is left',
  );
  return { code, says, fix };
}

test('a model is fetched, checked, named by its content and linked into its folder', async () => {
  using at = open();
  const seen: number[] = [];
  const manifest = await bring(at, 'hf://o/big', never, seen);
  assert.deepEqual(manifest.files, [{ name: 'big.gguf', bytes: big.length, sha256: hash }]);
  assert.equal(manifest.revision, hub.commit);
  assert.deepEqual(readFileSync(at.store.pathOf(manifest, 'big.gguf')), big);
  assert.deepEqual(readdirSync(join(at.folder, 'blobs')), [hash]);
  assert.deepEqual(at.left(), []);
  assert.deepEqual(at.store.find('id'), manifest);
  assert.equal(seen.at(-1), big.length);
  assert.deepEqual(
    seen,
    seen.toSorted((a, b) => a - b),
    'progress never goes back',
  );
});

test('what is here is not fetched again, whatever it is called', async () => {
  using at = open();
  await bring(at, 'hf://o/big');
  hub.put('o/copy', 'other-name.gguf', big);
  const planned = await plan(at, 'hf://o/copy');
  await at.store.bring(wanted('copy'), planned, never, nothing);
  assert.equal(contentRequests().length, 1);
  assert.deepEqual(readdirSync(join(at.folder, 'blobs')), [hash], 'and is on the disk once');
  await at.store.remove('id');
  assert.deepEqual(readdirSync(join(at.folder, 'blobs')), [hash], 'the other still has it');
  await at.store.remove('copy');
  assert.deepEqual(readdirSync(join(at.folder, 'blobs')), []);
  assert.deepEqual(at.store.list(), []);
});

test('small files are checked by the checksum of git, and remembered by their own', async () => {
  using at = open();
  const manifest = await bring(at, 'hf://o/small');
  assert.equal(manifest.files[0]?.sha256, sha256(small));
  hub.requests.length = 0;
  const planned = await plan(at, 'hf://o/small');
  assert.deepEqual(
    (await at.downloads.find(planned.files[0] ?? assert.fail()))?.sha256,
    sha256(small),
  );
});

test('all parts of a split model are fetched into one folder under their names', async () => {
  using at = open();
  const manifest = await bring(at, 'hf://o/split');
  const names = ['m-00001-of-00002.gguf', 'm-00002-of-00002.gguf'];
  assert.deepEqual(
    manifest.files.map(({ name }) => name),
    names,
  );
  for (const name of names) assert.ok(existsSync(at.store.pathOf(manifest, name)));
});

test('the token goes to the hub and never on to the file server', async () => {
  using at = open();
  const planned = await plan(at, 'hf://o/gated', hub.token);
  await at.store.bring(wanted('id'), planned, never, nothing);
  const with_token = hub.requests.filter(({ headers }) => headers.authorization !== undefined);
  assert.ok(with_token.length > 0 && with_token.every(({ origin }) => origin === 'hub'));
  assert.equal(contentRequests().length, 1);
});

test('a download that was cut goes on from where it was, also in a new process', async () => {
  using at = open();
  hub.faults = { cut_next: 1 };
  await bring(at, 'hf://o/big');
  const ranges = contentRequests().map(({ headers }) => headers.range);
  assert.equal(ranges.length, 2);
  assert.match(ranges[1] ?? '', /^bytes=[1-9]\d+-$/);

  using other = open();
  mkdirSync(join(other.folder, 'partial'), { recursive: true });
  writeFileSync(other.part, big.subarray(0, 500_000));
  const dead = JSON.stringify({ pid: 2 ** 22 + 1, folder: other.part });
  writeFileSync(other.part.replace(/part$/, 'lock'), dead);
  const seen: number[] = [];
  await bring(other, 'hf://o/big', never, seen);
  assert.equal(contentRequests().at(-1)?.headers.range, 'bytes=500000-');
  assert.deepEqual(other.left(), [], 'the lock of the dead is gone too');
  assert.ok(seen.every((done) => done === 0 || done >= 500_000));
});

test('a partial file that is not of the content is thrown away, and it is fetched whole', async () => {
  using at = open();
  mkdirSync(join(at.folder, 'partial'), { recursive: true });
  writeFileSync(at.part, Buffer.alloc(500_000, 1));
  assert.equal((await bring(at, 'hf://o/big')).files[0]?.sha256, hash);
  writeFileSync(at.part, Buffer.alloc(big.length + 5, 1));
  await at.store.remove('id');
  assert.equal((await bring(at, 'hf://o/big')).files[0]?.sha256, hash);
});

const odd_ranges: [string, FakeHub['faults']][] = [
  ['sends the whole', { ignore_range: true }],
  ['refuses the range', { refuse_range: true }],
  ['sends another range', { wrong_range: true }],
];
for (const [what, fault] of odd_ranges) {
  test(`where a server ${what} in place of the rest, it is fetched whole`, async () => {
    using at = open();
    mkdirSync(join(at.folder, 'partial'), { recursive: true });
    writeFileSync(at.part, big.subarray(0, 300_000));
    hub.faults = fault;
    assert.equal((await bring(at, 'hf://o/big')).files[0]?.sha256, hash);
  });
}

test('of a plain URL without a validator nothing is gone on with; with one, only the same', async () => {
  using at = open();
  const url = `${hub.files_origin}/o/big/big.gguf`;
  hub.faults = { cut_next: 1 };
  const manifest = await bring(at, url);
  assert.equal(manifest.source, 'source of id');
  assert.equal(manifest.files[0]?.sha256, hash);
  const second = contentRequests().at(-1)?.headers;
  assert.equal(second?.['if-range'], `"cdn-${big.length}"`);
});

test('two that want the same share one transfer; calling one off leaves the other', async () => {
  using at = open();
  hub.faults = { stall_at: 300_000 };
  const one = new AbortController();
  const [first, second] = [await plan(at, 'hf://o/big'), await plan(at, 'hf://o/big')];
  const seen: number[] = [];
  let half = nothing;
  const came = new Promise<void>((resolve) => {
    half = resolve;
  });
  const called_off = at.store.bring(wanted('first'), first, one.signal, (done) => {
    if (done > 100_000) half();
  });
  const other = at.store.bring(wanted('second'), second, never, (done) => seen.push(done));
  await came;
  assert.equal(contentRequests().length, 1);
  hub.faults = {};
  one.abort();
  await assert.rejects(called_off, { name: 'AbortError' });
  await other;
  assert.ok(
    seen.some((done) => done > 0 && done < big.length),
    'it saw the progress',
  );
});

test('the last one to leave ends the transfer, and what has come stays to be gone on with', async () => {
  using at = open();
  hub.faults = { stall_at: 300_000 };
  const off = new AbortController();
  const planned = await plan(at, 'hf://o/big');
  await assert.rejects(
    at.store.bring(wanted('id'), planned, off.signal, (done) => done > 100_000 && off.abort()),
    { name: 'AbortError' },
  );
  while (hub.open() > 0 || at.left().length > 1) await new Promise((done) => setImmediate(done));
  assert.deepEqual(at.left(), [`${hash}.part`]);
  await at.store.remove('id');
  assert.deepEqual(at.left(), [], 'removing the model removes it');
});

test('the failure of one without a token is not that of one with it, who wants the same', async () => {
  using at = open();
  const mine = await plan(at, 'hf://o/gated', hub.token);
  assert.ok(mine.hub !== null);
  const theirs = { ...mine, hub: { ...mine.hub, hub: { ...mine.hub.hub, token: null } } };
  // Whoever comes first fetches; their own head was asked for when it was planned.
  const off = at.store.bring(wanted('theirs'), theirs, never, nothing).catch(nothing);
  await at.store.bring(wanted('mine'), mine, never, nothing);
  await off;
});

test('room on the disk is looked at before a byte comes, and what is promised counts', async () => {
  using at = open({ freeBytes: () => 2 ** 30 + big.length - 1 });
  const refused = await refusal(
    at,
    (async () => {
      mkdirSync(join(at.folder, 'partial'), { recursive: true });
      await bring(at, 'hf://o/big');
    })(),
  );
  assert.equal(refused.code, 'disk_full');
  assert.match(refused.says, /^1.1 GB are needed on the disk of .*, 1.1 GB are free\.$/);
  assert.equal(contentRequests().length, 0);
  writeFileSync(at.part, big.subarray(0, 1000));
  await bring(at, 'hf://o/big');
});

const refusals: [string, FakeHub['faults'], string, RegExp][] = [
  ['other bytes of the same length', { corrupt: true }, 'model_corrupt', /another checksum/],
  ['a page to sign in', { html: true }, 'source_not_a_model', /sent a web page/],
  ['a compressed answer', { gzip: true }, 'download_failed', /compresses it \(gzip\)/],
  [
    'a shorter file',
    { short_by: 10 },
    'download_failed',
    /is 599994 bytes long, and not the 600004/,
  ],
  ['more than was announced', { endless: true }, 'download_failed', /more came than the 600004/],
  [
    'an end before the end',
    { no_length: true, short_by: 10 },
    'download_stalled',
    /at 600 kB of 600 kB/,
  ],
  [
    'silence in the middle',
    { stall_at: 200_000 },
    'download_stalled',
    /stopped arriving at 200 kB of 600 kB, 6 times/,
  ],
  ['a loop of redirects', { redirect_loop: true }, 'source_redirect_refused', /one too many/],
  [
    'a redirect away from https',
    { redirect_to: 'http://cdn.example/x' },
    'source_redirect_refused',
    /not encrypted/,
  ],
  [
    'a redirect to this machine',
    { redirect_to: 'https://127.0.0.1:9/x' },
    'source_refused',
    /port 9/,
  ],
  [
    'a redirect to its network',
    { redirect_to: 'https://10.0.0.1/x' },
    'source_address_refused',
    /10.0.0.1, which is no public/,
  ],
  [
    'a redirect to metadata',
    { redirect_to: 'https://169.254.169.254/x' },
    'source_address_refused',
    /no public/,
  ],
  ['a redirect to nowhere', { redirect_to: 'http://[' }, 'source_redirect_refused', /no URL/],
  [
    'a redirect to a file',
    { redirect_to: 'file:///etc/passwd' },
    'source_redirect_refused',
    /not encrypted/,
  ],
  ['failures without end', { fail_next: 1000 }, 'source_failing', /status 503/],
];
for (const [what, fault, code, says] of refusals) {
  test(`${what}: ${code}, and nothing of it is kept`, async () => {
    using at = open();
    const planned = await plan(at, 'hf://o/big');
    hub.faults = fault;
    const refused = await refusal(at, at.store.bring(wanted('id'), planned, never, nothing));
    assert.equal(refused.code, code, refused.says);
    assert.match(refused.says, says);
    assert.notEqual(refused.fix, '');
    assert.equal(at.store.find('id'), null);
  });
}

test('a failure that passes is tried again, and gives the whole', async () => {
  using at = open();
  const planned = await plan(at, 'hf://o/big');
  hub.faults = { fail_next: 3, cut_next: 8 };
  const manifest = await at.store.bring(wanted('id'), planned, never, nothing);
  assert.equal(manifest.files[0]?.sha256, hash);
});

test('an id tells machine, tenant and source apart', () => {
  const ids = new Set([
    ...[modelFileId('m', 't', 's'), modelFileId('m', 't', 's2'), modelFileId('m', 't2', 's')],
    ...[modelFileId('m2', 't', 's'), modelFileId('m","t', '', 's')],
  ]);
  assert.equal(ids.size, 5);
  for (const id of ids) assert.match(id, /^[0-9a-f]{26}$/);
});
