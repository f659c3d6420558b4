import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { type FakeApi, openFakeApi } from '../../test/lib/fake-api.ts';
import { event, now_ms, stage, workload } from '../../test/lib/fake-records.ts';
import { runCli } from '../../test/lib/run-cli.ts';

let api: FakeApi;
beforeEach(async () => {
  api = await openFakeApi();
});
afterEach(() => api.close());

function add(...changes: Parameters<typeof workload>[0][]) {
  for (const change of changes) {
    const one = workload(change);
    api.workloads.set(one.id, one);
  }
}

const gib = 2 ** 30;
const box1 = {
  id: 'm1',
  name: 'box1',
  region: 'local',
  owner: 'owner',
  sharing: 'private',
  invited: [],
  is_yours: true,
  drained_at: null,
  caps: null,
  reclaim: null,
  online: true,
  last_seen_at: now_ms,
  offered: { cpu_millis: 2000, memory_bytes: 6 * gib, disk_bytes: 1e10 },
  held: { cpu_millis: 1000, memory_bytes: 2 * gib, disk_bytes: 0 },
  workloads: ['smollm2-135m'],
  inventory: {
    name: 'box1',
    os: 'linux',
    os_version: '12',
    arch: 'x64',
    cpu_model: 'some',
    cpu_count: 2,
    memory_bytes: 8 * gib,
    disk_free_bytes: 20e9,
    offered: { cpu_millis: 2000, memory_bytes: 6 * gib, disk_bytes: 1e10 },
    accelerators: ['cpu'],
    gpus: [],
    drivers: [
      { driver: 'linux-native', ready: true, why: null, kinds: ['endpoint'], findings: [] },
      { driver: 'docker', ready: false, why: 'no Docker here', kinds: ['instance'], findings: [] },
    ],
    findings: [],
  },
};

test('ls shows state, age, place and reason, over all pages', async () => {
  const reason = { code: 'all_matching_busy', message: 'All are busy.', fix: null };
  add(
    {},
    { id: 'w2', name: 'waits', state: 'queued', placement: null, reason, queue_place: 1 },
    { id: 'w3', name: 'idle', state: 'stopped', park_cause: 'idle', placement: null },
    { id: 'w4', name: 'gone', state: 'deleted', intent: 'deleted', placement: null },
    { id: 'w5', name: 'lost', heard_of: false, last_heard_at: now_ms - 600_000 },
  );
  const { code, stdout, stderr } = await runCli(['ls'], api);
  assert.equal(code, 0);
  assert.equal(stderr, '');
  assert.deepEqual(
    stdout.split('\n').map((line) => line.split(/ {2,}/)),
    [
      ['NAME', 'KIND', 'STATE', 'SINCE', 'CLASS', 'MACHINE', 'ISOLATION', 'REASON'],
      ['smollm2-135m', 'endpoint', 'running', '3 min ago', 'cpu-1c-2g', 'box1', 'weak', '-'],
      ['waits', 'endpoint', 'queued, place 1', '3 min ago', '-', '-', '-', 'All are busy.'],
      ['idle', 'endpoint', 'stopped (idle)', '3 min ago', '-', '-', '-', '-'],
      [
        'lost',
        'endpoint',
        'running, last heard of 10 min ago',
        '3 min ago',
        'cpu-1c-2g',
        'box1',
        'weak',
        '-',
      ],
      [''],
    ],
  );
  const all = await runCli(['ls', '--all', '--json'], api);
  assert.equal(JSON.parse(all.stdout).items.length, 5);
  const with_ids = await runCli(['ls', '--all'], api);
  assert.match(with_ids.stdout, /^ID +NAME [\s\S]*\nw1 +/);
});

test('control characters in a name or reason never reach the terminal', async () => {
  const reason = { code: 'x', message: 'a\u001b]0;title\u0007b\nc\u009bd', fix: null };
  add({ name: 'evil\u001b[2J', reason });
  const { stdout } = await runCli(['ls'], { ...api, tty: true, columns: 200 });
  // biome-ignore lint/suspicious/noControlCharactersInRegex: that none is there is what is tested
  assert.doesNotMatch(stdout, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
  assert.match(stdout, /ab cd/);
});

test('on a narrow terminal the table is cut to its width, in a pipe never', async () => {
  add({ reason: { code: 'x', message: 'long '.repeat(40), fix: null } });
  const narrow = await runCli(['ls'], { ...api, tty: true, columns: 60 });
  for (const line of narrow.stdout.trimEnd().split('\n')) assert.ok([...line].length <= 60);
  const piped = await runCli(['ls'], api);
  assert.ok(piped.stdout.includes('long '.repeat(40).trim()));
});

test('an empty ls says the first command on stderr, and nothing on stdout', async () => {
  const { code, stdout, stderr } = await runCli(['ls'], api);
  assert.deepEqual([code, stdout], [0, '']);
  assert.match(stderr, /einsora launch endpoint smollm2-135m/);
});

test('show tells all about one workload, with its stages', async () => {
  add({ url: `${api.url}/v1`, stages: [stage('load', { state: 'done', duration_ms: 350 })] });
  const { code, stdout } = await runCli(['show', 'smollm2-135m'], api);
  assert.equal(code, 0);
  assert.match(stdout, /^state {6}running, for 3m 0s$/m);
  assert.match(stdout, /^where {6}box1 \(linux-native, weak isolation\)$/m);
  assert.match(stdout, /^host sees {2}everything/m);
  assert.match(stdout, /^ {2}load {6}350 ms$/m);
  const json = await runCli(['show', 'w1', '--json'], api);
  assert.equal(JSON.parse(json.stdout).id, 'w1');
});

test('an unknown name exits 4 and suggests near ones', async () => {
  add({});
  const { code, stdout, stderr } = await runCli(['show', 'smolm2', '--json'], api);
  assert.equal(code, 4);
  assert.match(stderr, /There is no workload smolm2\.\n {2}fix: did you mean smollm2-135m\?/);
  assert.equal(JSON.parse(stdout).error.code, 'not_found');
});

test('machines shows what is free, and what cannot run there and why', async () => {
  api.machines = { items: [box1] };
  const { code, stdout, stderr } = await runCli(['machines'], api);
  assert.equal(code, 0);
  assert.match(
    stdout,
    /box1 {2}online {2}owner {2}private {2}linux x64 {2}1 of 2 {4}4 GiB of 6 GiB {2}20\.0 GB/,
  );
  assert.equal(stderr, 'box1: docker cannot run: no Docker here\n');
});

test('catalog shows models, images and classes', async () => {
  api.catalog = {
    classes: [
      {
        name: 'cpu-1c-2g',
        accelerator: 'cpu',
        delivery: 'native',
        cpu_millis: 1000,
        memory_bytes: 2 * gib,
        gpu_memory_bytes: 0,
        gpu_model: null,
        machines: ['box1'],
      },
      {
        ...{ name: 'l40s-48gb', accelerator: 'nvidia', delivery: 'container', cpu_millis: 6000 },
        ...{ memory_bytes: 24 * gib, gpu_memory_bytes: 48 * gib, gpu_model: 'l40s', machines: [] },
      },
    ],
    images: [
      {
        name: 'jupyter',
        title: 'JupyterLab',
        kinds: ['notebook'],
        runtimes: [
          { accelerator: 'cpu', form: 'native', reference: null },
          { accelerator: 'cpu', form: 'container', reference: 'localhost/einsora/jupyter:1' },
        ],
        machines: [],
      },
    ],
    models: [
      {
        name: 'smollm2-135m',
        title: 'SmolLM2 135M Instruct',
        licence: 'Apache-2.0',
        format: 'gguf',
        parameters: '135M',
        quantization: 'Q4_1',
        context_length: 2048,
        file_bytes: 98_362_432,
        smallest_class: 'cpu-1c-2g',
      },
    ],
  };
  const { stdout } = await runCli(['catalog'], api);
  assert.match(stdout, /smollm2-135m {2}98\.4 MB {2}135M Q4_1 {3}2048 {5}cpu-1c-2g/);
  assert.match(
    stdout,
    /jupyter {2}notebook {2}cpu {6}native, container {2}no machine {2}JupyterLab/,
  );
  assert.match(stdout, /cpu-1c-2g +cpu +- +native +1 +2 GiB +box1/);
  assert.match(stdout, /l40s-48gb +nvidia +l40s, 48 GiB +container +6 +24 GiB +no machine/);
});

test('events shows the whole timeline, oldest first', async () => {
  add({});
  api.events = [
    event(1),
    event(2, { from_state: 'pending', to_state: 'provisioning', message: 'Placed on box1.' }),
    event(3, { kind: 'note', to_state: null, message: 'A note.', actor: 'controller' }),
  ];
  const { stdout } = await runCli(['events', 'w1'], api);
  assert.deepEqual(
    stdout.split('\n').map((line) => line.split(/ {2,}/)),
    [
      ['WHEN', 'STATE', 'BY', 'WHAT'],
      ['1 min ago', 'pending', 'owner', 'Recorded.'],
      ['1 min ago', 'pending -> provisioning', 'owner', 'Placed on box1.'],
      ['1 min ago', 'note', 'controller', 'A note.'],
      [''],
    ],
  );
});

test('events -f gives each event once, and ends when the workload is deleted', async () => {
  add({});
  api.events = [event(1), event(2), event(3)];
  let sleeps = 0;
  const { code, stdout } = await runCli(['events', 'w1', '-f', '--json'], {
    ...api,
    onSleep: () => {
      sleeps += 1;
      if (sleeps === 2) api.events.push(event(4), event(5, { to_state: 'deleted' }));
    },
  });
  const numbers = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line).number);
  assert.equal(code, 0);
  assert.deepEqual(numbers, [1, 2, 3, 4, 5]);
});

test('open prints the link that signs in once, and opens it', async () => {
  const opened: string[] = [];
  const openPage = async (url: string) => {
    opened.push(url);
    return true;
  };
  const { code, stdout } = await runCli(['open'], { ...api, openPage });
  assert.equal(code, 0);
  assert.equal(stdout, `${api.url}/sign-in#t=once\n`);
  assert.deepEqual(opened, [`${api.url}/sign-in#t=once`]);
  const printed = await runCli(['open', '--no-browser', '--json'], { ...api, openPage });
  assert.equal(JSON.parse(printed.stdout).opened, false);
  assert.equal(opened.length, 1);
});

test('open with a workload goes on to its page, and says where a kind has none', async () => {
  const notebook = { id: 'n'.repeat(26), name: 'lab', kind: 'notebook' } as const;
  add({ name: 'chat' }, notebook);
  const opened = await runCli(['open', 'lab', '--no-browser'], api);
  assert.equal(opened.stdout, `${api.url}/sign-in#t=once&next=/open/${notebook.id}\n`);
  const failure = { status: 403, code: 'token_too_narrow', message: 'too narrow', fix: null };
  api.failures.set('POST /v1/sign-in-links', failure);
  const narrow = await runCli(['open', 'lab', '--no-browser'], api);
  api.failures.clear();
  assert.equal(narrow.stdout, `${api.url}/open/${notebook.id}\n`);
  const refused = await runCli(['open', 'chat', '--no-browser'], api);
  assert.equal(refused.code, 5);
  assert.match(refused.stderr, /has no web page/);
});
