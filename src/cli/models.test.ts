/**
 * The commands about models: what they print, how they end, what Ctrl-C leaves.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type FakeApi, openFakeApi } from '../../test/lib/fake-api.ts';
import { modelFile } from '../../test/lib/fake-models.ts';
import { writeKnownAnswerModel } from '../../test/lib/known-answer.ts';
import { type CliOptions, runCli } from '../../test/lib/run-cli.ts';

type Given = {
  api: FakeApi;
  cli: (argv: string[], more?: Partial<CliOptions>) => ReturnType<typeof runCli>;
};

function given(name: string, body: (given: Given) => Promise<void>): void {
  test(name, async () => {
    const api = await openFakeApi();
    const { data_dir } = api;
    try {
      const cli: Given['cli'] = (argv, more = {}) => runCli(argv, { data_dir, ...more });
      await body({ api, cli });
    } finally {
      await api.close();
    }
  });
}

given(
  'a list has each model with its size, state, machine and users, and why one failed',
  async ({ api, cli }) => {
    const reason = {
      code: 'hub_gated',
      message: 'o/c is gated.',
      fix: 'bin/einsora secrets set hf-token',
    };
    api.models.files = [
      modelFile('a', { in_use_by: ['chat', 'other'] }),
      modelFile('b', { state: 'fetching', bytes: null, done_bytes: 1, total_bytes: 4 }),
      modelFile('c', { state: 'failed', bytes: null, reason }),
    ];
    const { code, stdout, stderr } = await cli(['models', 'ls']);
    assert.equal(code, 0);
    assert.deepEqual(
      stdout.split('\n').map((line) => line.replace(/ {2,}/g, '|')),
      [
        'ID|MODEL|SIZE|STATE|MACHINE|USED BY',
        'a00000000000|hf://o/a@000000000000/a.gguf|600 MB|ready|box1|chat, other',
        'b00000000000|hf://o/b@000000000000/b.gguf|4 B|fetching 25%|box1|-',
        'c00000000000|hf://o/c@000000000000/c.gguf|-|failed|box1|-',
        '',
      ],
    );
    assert.equal(stderr, 'c.gguf: o/c is gated.\n  fix: bin/einsora secrets set hf-token\n');
    const { items } = JSON.parse((await cli(['models', 'ls', '--json'])).stdout);
    assert.equal(items.length, 3);
  },
);

given(
  'a pull is watched until it is here, once for each quarter where nobody sees a bar',
  async ({ api, cli }) => {
    const bytes = (done_bytes: number) =>
      ({ state: 'fetching', done_bytes, total_bytes: 100 }) as const;
    const checked = { ok: true, code: null, rule: null, message: 'gguf, llama', at: 1 };
    const done = {
      state: 'ready',
      bytes: 100,
      done_bytes: null,
      total_bytes: null,
      checked,
    } as const;
    api.models.script = [bytes(10), bytes(20), bytes(60), bytes(70), done];
    const { code, stdout, stderr } = await cli(['models', 'pull', 'hf://o/pulled']);
    assert.equal(code, 0);
    assert.match(stdout, /^hf:\/\/o\/pulled@0{40}\/pulled\.gguf\n$/);
    const lines = stderr.trimEnd().split('\n');
    assert.deepEqual(
      lines.map((line) => line.slice(0, 27)),
      ['pulling pulled.gguf  waitin', 'pulling pulled.gguf  60% ▕█', '✔ pulled.gguf  100 B  gguf,'],
    );
    assert.equal(api.calls[0]?.method, 'POST');
    assert.notEqual(api.calls[0]?.idempotency_key, null);
  },
);

given('on a terminal the line is rewritten in place', async ({ api, cli }) => {
  api.models.script = [
    { state: 'fetching', done_bytes: 10, total_bytes: 100 },
    {
      state: 'ready',
      bytes: 100,
      checked: { ok: true, code: null, rule: null, message: 'x', at: 1 },
    },
  ];
  const { stderr } = await cli(['models', 'pull', 'hf://o/pulled'], { tty: true, columns: 60 });
  assert.ok(stderr.includes('\r\u001b[Kpulling pulled.gguf  10%'), stderr);
});

given('a pull that fails says why and what helps', async ({ api, cli }) => {
  const reason = { code: 'model_corrupt', message: 'It was thrown away.', fix: 'try again' };
  api.models.script = [{ state: 'failed', reason }];
  const { code, stderr } = await cli(['models', 'pull', 'hf://o/pulled']);
  assert.equal(code, 1);
  assert.match(stderr, /✘ It was thrown away\.\n {2}fix: try again\n$/);
});

given('Ctrl-C and --detach leave a pull going on, and say so', async ({ cli }) => {
  const left = await cli(['models', 'pull', 'hf://o/pulled'], {
    onSleep: (interrupt) => interrupt(),
  });
  assert.equal(left.code, 130);
  assert.match(left.stderr, /It goes on without this command: bin\/einsora models ls/);
  const detached = await cli(['models', 'pull', 'hf://o/pulled', '--detach', '--json']);
  assert.equal(detached.code, 0);
  assert.equal(JSON.parse(detached.stdout).state, 'queued');
});

given(
  'models are removed by id, source or file name, where that names one',
  async ({ api, cli }) => {
    const names = ['aaaaaaaa', 'bbbbbbbb', 'cccccccc'];
    const twin = modelFile('dddddddd', { source: 'https://x.example/cccccccc.gguf' });
    api.models.files = [...names.map((name) => modelFile(name)), twin];
    const ambiguous = await cli(['models', 'rm', 'cccccccc.gguf']);
    assert.equal(ambiguous.code, 2);
    assert.match(
      ambiguous.stderr,
      /cccccccc\.gguf names 2 models: cccccccc0000 \(box1\), dddddddd0000/,
    );
    const removed = await cli(['models', 'rm', 'aaaaaaaa0', 'bbbbbbbb.gguf', 'hf://o/cccccccc']);
    assert.equal(removed.code, 0, removed.stderr);
    assert.deepEqual(api.models.files, [twin]);
    const none = await cli(['models', 'rm', 'nothing']);
    assert.equal(none.code, 4);
    assert.match(none.stderr, /There is no model nothing on a machine/);
  },
);

given(
  'a file here is validated without a control plane; one of a machine by the machine',
  async ({ api, cli }) => {
    const good = join(api.data_dir, 'good.gguf');
    const bad = join(api.data_dir, 'bad.gguf');
    writeKnownAnswerModel(good);
    writeFileSync(bad, Buffer.from([0x80, 4, 0x95, 1, 2, 3]));
    const offline = await cli(['models', 'validate', good, 'bad.gguf', '--json']);
    assert.equal(offline.code, 1);
    const { items } = JSON.parse(offline.stdout);
    assert.deepEqual([items[0].ok, items[1].ok], [true, false]);
    assert.equal(items[1].findings[0].code, 'model_file_invalid');
    assert.ok(items[1].findings[0].rule);
    assert.deepEqual(api.calls, []);
    const checked = {
      ok: false,
      code: 'model_file_invalid',
      rule: 'truncated',
      message: 'Cut.',
      at: 7,
    };
    api.models.files = [modelFile('aaaaaaaa', { checked: { ...checked, at: 3 } })];
    api.models.script = [{}, { checked }];
    const there = await cli(['models', 'validate', 'aaaaaaaa.gguf']);
    assert.equal(there.code, 1);
    assert.match(there.stdout, /^✘ hf:.*\n {2}model_file_invalid \(truncated\): Cut\.\n$/);
    const reason = { code: 'hub_gated', message: 'It is gated.', fix: null };
    api.models.files = [modelFile('bbbbbbbb', { state: 'failed', reason })];
    const missing = await cli(['models', 'validate', 'bbbbbbbb.gguf']);
    assert.equal(missing.code, 5);
    assert.match(missing.stderr, /bbbbbbbb\.gguf is failed on box1: It is gated\.\n {2}fix/);
  },
);
