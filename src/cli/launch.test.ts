import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { endpoint_key, type FakeApi, openFakeApi } from '../../test/lib/fake-api.ts';
import { placed, stage } from '../../test/lib/fake-records.ts';
import { runCli } from '../../test/lib/run-cli.ts';
import { launchRequest } from './launch-request.ts';

let api: FakeApi;
beforeEach(async () => {
  api = await openFakeApi();
});
afterEach(() => api.close());

const argv = ['launch', 'endpoint', 'smollm2-135m'];
const done = (name: 'engine' | 'model') => stage(name, { state: 'done', duration_ms: 12_400 });
const loading = stage('model', { done_bytes: 41_200_000, total_bytes: 92_900_000 });

function scriptedStart() {
  return [
    { state: 'provisioning' as const, placement: placed(), stages: [stage('engine')] },
    { stages: [done('engine'), loading] },
    { stages: [done('engine'), { ...loading, done_bytes: 60_000_000 }] },
    { state: 'running' as const, stages: [done('engine'), done('model')] },
  ];
}

test('launch shows the plan, then the stages, then url, key and a curl line', async () => {
  api.script = scriptedStart();
  const { code, stdout, stderr } = await runCli(argv, api);
  assert.equal(code, 0);
  assert.match(stderr, /^Asked: one endpoint/);
  assert.match(stderr, /isolation {2}weak/);
  const stages = stderr.slice(stderr.indexOf('… engine'));
  assert.equal(
    stages,
    '… engine\n✔ engine    12.4 s\n… model     41.2 MB of 92.9 MB\n✔ model     12.4 s\n',
  );
  assert.ok(stdout.startsWith(`url  ${api.url}/v1\nkey  ${endpoint_key}   (shown this once)\n`));
  assert.ok(stdout.includes(`curl ${api.url}/v1/chat/completions \\\n`));
  assert.ok(stdout.includes(`-H 'Authorization: Bearer ${endpoint_key}'`));
  const paths = api.calls.map((call) => `${call.method} ${call.path}`);
  assert.deepEqual(paths.slice(0, 2), ['POST /v1/plan', 'POST /v1/workloads']);
});

test('the plan comes before anything is recorded, and its refusal ends the launch', async () => {
  const message = 'There is no model smolm2 in the catalog, and it is no file here.';
  const details = { model: 'smolm2' };
  const failure = { status: 400, code: 'unknown_model', message, fix: null, details };
  api.failures.set('POST /v1/plan', failure);
  const { code, stderr } = await runCli(['launch', 'endpoint', 'smolm2'], api);
  assert.equal(code, 5);
  assert.match(stderr, /error unknown_model: There is no model smolm2/);
  assert.match(stderr, /fix: did you mean smollm2-135m\?/);
  assert.match(stderr, /request: req-1/);
  assert.equal(api.workloads.size, 0);
});

test('--plan shows the plan on stdout and launches nothing', async () => {
  const { code, stdout } = await runCli([...argv, '--plan', '--region', 'attic'], api);
  assert.equal(code, 0);
  assert.match(stdout, /^Asked: one endpoint/);
  assert.match(stdout, /^Machines:\n {2}MACHINE +BY +ANSWER$/m);
  const json = await runCli([...argv, '--plan', '--json'], api);
  assert.deepEqual(JSON.parse(json.stdout).candidates, api.plan.candidates);
  assert.deepEqual(
    api.calls.map((call) => `${call.method} ${call.path}`),
    ['POST /v1/plan', 'POST /v1/plan'],
  );
  assert.match(JSON.stringify(api.calls[0]?.body), /"region":"attic"/);
});

test('a placement that differs from the plan is said', async () => {
  api.script = scriptedStart();
  assert.doesNotMatch((await runCli(argv, api)).stderr, /Not as planned/);
  const planned = placed();
  api.plan = { ...api.plan, chosen: planned && { ...planned, machine_name: 'box9' } };
  api.script = scriptedStart();
  assert.match((await runCli(argv, api)).stderr, /Not as planned: box1 instead of box9\./);
});

test('launch --json prints one document with plan, workload, url, key and request', async () => {
  api.script = scriptedStart();
  const { code, stdout } = await runCli([...argv, '--json', '--context-length', '512'], api);
  const document = JSON.parse(stdout);
  assert.equal(code, 0);
  assert.equal(document.outcome, 'running');
  assert.equal(document.plan.chosen.machine_name, 'box1');
  assert.equal(document.workload.state, 'running');
  assert.equal(document.url, `${api.url}/v1`);
  assert.equal(document.key, endpoint_key);
  assert.deepEqual(document.request, {
    kind: 'endpoint',
    model: 'smollm2-135m',
    model_params: { context_length: 512 },
  });
  assert.equal(document.error, null);
});

test('a failed launch says sentence, fix and last output, and exits 6', async () => {
  const reason = {
    code: 'engine_exited',
    message: 'The engine ended by itself (exit 1).',
    fix: 'einsora logs smollm2-135m',
  };
  const failed = stage('load', { state: 'failed', duration_ms: 100 });
  api.script = [{ state: 'failed', reason, stages: [failed] }];
  api.logs = { text: 'bad \u001b[31mmodel\nline two\n', run_epoch: 1, end: true };
  const { code, stdout, stderr } = await runCli(argv, api);
  assert.equal(code, 6);
  assert.equal(stdout, '');
  assert.match(stderr, /✘ load {6}100 ms\n✘ The engine ended by itself \(exit 1\)\.\n {2}fix: ein/);
  assert.match(stderr, /last output:\n {4}bad model\n/);
  assert.equal(api.keys.size, 0);
});

test('a failed launch with --json has the error in its document', async () => {
  const reason = { code: 'out_of_memory', message: 'It used more.', fix: null };
  api.script = [{ state: 'failed', reason }];
  const { code, stdout } = await runCli([...argv, '--json'], api);
  const document = JSON.parse(stdout);
  assert.equal(code, 6);
  assert.equal(document.error.code, 'out_of_memory');
  assert.equal(document.key, null);
});

test('a queued launch says why and its place, and keeps waiting', async () => {
  const reason = { code: 'all_matching_busy', message: 'All are busy.', fix: 'einsora ls' };
  const waiting = { state: 'queued' as const, reason, queue_place: 3 };
  api.script = [waiting, waiting, waiting, { state: 'running', reason: null, queue_place: null }];
  const { code, stderr } = await runCli(argv, api);
  assert.equal(code, 0);
  assert.equal(stderr.match(/· queued, place 3: All are busy\./g)?.length, 1);
});

test('Ctrl-C only detaches, says how to come back, and exits 130', async () => {
  const { code, stdout, stderr } = await runCli(argv, {
    ...api,
    onSleep: (interrupt) => interrupt(),
  });
  assert.equal(code, 130);
  assert.equal(stdout, '');
  assert.match(stderr, /Detached: smollm2-135m goes on\./);
  assert.ok(stderr.includes(`bin/einsora events smollm2-135m -f --data-dir ${api.data_dir}`));
  assert.equal(api.workloads.size, 1);
  assert.ok(!api.calls.some((call) => call.path.endsWith('/stop')));
});

test('when the control plane goes away, it is said that the launch is recorded', async () => {
  const path = (id: string | undefined) => `GET /v1/workloads/${id}`;
  const failure = { status: 503, code: 'shutting_down', message: 'Stopping.', fix: 'einsora up' };
  const { code, stderr } = await runCli(argv, {
    ...api,
    onSleep: () => api.failures.set(path([...api.workloads.keys()][0]), failure),
  });
  assert.equal(code, 1);
  assert.match(
    stderr,
    /smollm2-135m is recorded: it goes on as far as it can\.\nerror shutting_down/,
  );
});

test('--timeout leaves after its time, and says that it goes on', async () => {
  let waited_ms = 0;
  const { code, stderr } = await runCli([...argv, '--timeout', '2s'], {
    ...api,
    onSleep: (_, ms) => {
      waited_ms += ms;
    },
  });
  assert.equal(code, 1);
  assert.equal(waited_ms, 2000);
  assert.match(stderr, /smollm2-135m is still pending: it goes on without this command\./);
});

test('--detach leaves right after recording, with id, name and key', async () => {
  const { code, stdout, stderr } = await runCli([...argv, '--detach'], api);
  const [recorded] = api.workloads.values();
  assert.equal(code, 0);
  assert.ok(stdout.startsWith(`id   ${recorded?.id}\nname smollm2-135m\n`));
  assert.ok(stdout.includes(endpoint_key));
  assert.match(stderr, /follow it: bin\/einsora events smollm2-135m -f/);
  assert.ok(!api.calls.some((call) => call.path === `/v1/workloads/${recorded?.id}`));
});

test('a launch whose connection breaks is repeated with its key, and recorded once', async () => {
  api.reset_paths = ['/v1/workloads'];
  const { code } = await runCli([...argv, '--detach'], api);
  const posts = api.calls.filter((call) => call.path === '/v1/workloads');
  assert.equal(code, 0);
  assert.equal(posts.length, 2);
  assert.match(String(posts[0]?.idempotency_key), /^[0-9a-f]{32}$/);
  assert.equal(posts[0]?.idempotency_key, posts[1]?.idempotency_key);
  assert.equal(api.workloads.size, 1);
});

test('on a terminal the running stage is rewritten in place', async () => {
  api.script = scriptedStart();
  const { stderr } = await runCli(argv, {
    ...api,
    tty: true,
    env: { TERM: 'xterm', NO_COLOR: '1' },
  });
  assert.ok(
    stderr.includes('… model     41.2 MB of 92.9 MB\r\u001b[K… model     60.0 MB of 92.9 MB'),
  );
  assert.ok(stderr.includes('\r\u001b[K✔ engine    12.4 s\n'));
  assert.doesNotMatch(stderr, /… engine\n/);
});

test('other kinds are sent as asked, and the answer of the server is shown', async () => {
  const message = 'No machine here can run this.';
  const failure = { status: 409, code: 'no_machine_matches', message, fix: 'einsora doctor' };
  api.failures.set('POST /v1/workloads', failure);
  const { code, stderr } = await runCli(['launch', 'vm', '--class', 'l40s-48gb'], api);
  assert.equal(code, 5);
  assert.match(stderr, /error no_machine_matches/);
  const sent = api.calls.find((call) => call.path === '/v1/plan')?.body;
  assert.deepEqual(sent, { kind: 'vm', gpu_class: 'l40s-48gb' });
});

test('a model file is sent by its absolute path, a name and a URL as they are', () => {
  const { data_dir } = api;
  writeFileSync(join(data_dir, 'weights'), '');
  const sent = (model: string) => launchRequest(data_dir, 'endpoint', { model }, {}).model;
  assert.equal(sent('./x.gguf'), join(data_dir, 'x.gguf'));
  assert.equal(sent('x.gguf'), join(data_dir, 'x.gguf'));
  assert.equal(sent('weights'), join(data_dir, 'weights'));
  assert.equal(sent('/m/x.gguf'), '/m/x.gguf');
  assert.equal(sent('../x'), join(data_dir, '..', 'x'));
  assert.equal(sent('file:///m/x.gguf'), 'file:///m/x.gguf');
  assert.equal(sent('hf://org/model'), 'hf://org/model');
  assert.equal(sent('smollm2-135m'), 'smollm2-135m');
  assert.equal(sent('no-such-model'), 'no-such-model');
});
