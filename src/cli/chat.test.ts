import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { afterEach, beforeEach, test } from 'node:test';
import { type FakeApi, openFakeApi } from '../../test/lib/fake-api.ts';
import { workload } from '../../test/lib/fake-records.ts';
import { type CliOptions, runCli } from '../../test/lib/run-cli.ts';

let api: FakeApi;
/** Bodies that the gateway got. */
let asked: { messages: { role: string; content: string }[] }[];
beforeEach(async () => {
  api = await openFakeApi();
  asked = [];
  api.workloads.set('w1', workload({ name: 'smol', url: `${api.url}/v1` }));
  answerWith((response) => {
    response.end(`${words('Hel', 'lo 🙂.')}${finish('stop')}data: [DONE]\n\n`);
  });
});
afterEach(() => api.close());

function answerWith(write: (response: ServerResponse) => void) {
  api.chat = (body, response) => {
    asked.push(body as (typeof asked)[number]);
    response.writeHead(200, { 'content-type': 'text/event-stream', 'x-request-id': 'req-chat' });
    write(response);
  };
}

const chunk = (fields: unknown) => `data: ${JSON.stringify(fields)}\n\n`;
const words = (...parts: string[]) =>
  parts.map((content) => chunk({ choices: [{ delta: { content } }] })).join('');
const finish = (finish_reason: string) => chunk({ choices: [{ delta: {}, finish_reason }] });
const usage = chunk({ choices: [], usage: { prompt_tokens: 3, completion_tokens: 2 } });

const chat = (options: Partial<CliOptions> = {}, ...argv: string[]) =>
  runCli(['chat', 'smol', ...argv], { ...api, ...options });

/** Every key that was made is revoked. */
function allRevoked(): boolean {
  return api.keys.size > 0 && [...api.keys.values()].every((key) => key.revoked);
}

test('chat streams one answer to stdout, by a key that is revoked after', async () => {
  const { code, stdout, stderr } = await chat({}, 'Say hello.', '--system', 'Be brief.');
  assert.deepEqual([code, stdout, stderr], [0, 'Hello 🙂.\n', '']);
  assert.deepEqual(asked[0]?.messages, [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Say hello.' },
  ]);
  assert.equal(api.keys.get('key1')?.expires_in_ms, 3600_000);
  assert.ok(allRevoked());
});

test('max tokens and temperature are sent only where given', async () => {
  await chat({}, 'x', '--max-tokens', '7', '--temperature', '0');
  await chat({}, 'x');
  const sent = asked.map((body) => Object.keys(body).sort().join(' '));
  assert.equal(sent[0], 'max_tokens messages model stream stream_options temperature');
  assert.equal(sent[1], 'messages model stream stream_options');
});

test('chat --json is one document with the answer and its usage', async () => {
  answerWith((response) => {
    response.write(': waiting\n\n');
    const truth = ': X-Einsora-Served-By: machine=desk; class=cpu-1\n: X-Einsora-Attempts: 1\n\n';
    response.end(`${words('Hi')}${finish('stop')}${usage}${truth}data: [DONE]\n\n`);
  });
  const { code, stdout } = await chat({}, 'x', '--json');
  assert.equal(code, 0);
  assert.deepEqual(JSON.parse(stdout), {
    workload: 'smol',
    answer: 'Hi',
    ended: 'whole',
    finish_reason: 'stop',
    usage: { prompt_tokens: 3, completion_tokens: 2 },
    served_by: 'machine=desk; class=cpu-1',
    request_id: 'req-chat',
    error: null,
  });
});

test('a stream that ends without [DONE] is a cut answer: said, and exit 1', async () => {
  answerWith((response) => response.end(words('half')));
  const { code, stdout, stderr } = await chat({}, 'x');
  assert.deepEqual([code, stdout], [1, 'half\n']);
  assert.match(stderr, /error answer_cut: The answer was cut off[\s\S]*request: req-chat/);
  assert.ok(allRevoked());
});

test('a connection that breaks in mid-answer is a cut answer', async () => {
  answerWith((response) => {
    response.write(words('half'), () => response.destroy());
  });
  const { code, stdout, stderr } = await chat({}, 'x', '--json');
  assert.equal(code, 1);
  assert.match(stderr, /answer_cut/);
  const document = JSON.parse(stdout);
  assert.deepEqual([document.answer, document.error.code], ['half', 'answer_cut']);
});

test('a connection that breaks before any word is a cut answer too', async () => {
  answerWith((response) => {
    response.flushHeaders();
    response.destroy();
  });
  assert.equal((await chat({}, 'x')).code, 1);
});

test('an error inside the stream is shown as the server says it', async () => {
  answerWith((response) => {
    response.end(
      `${words('a')}${chunk({ error: { message: 'It broke.', code: 'engine_exited' } })}`,
    );
  });
  const { code, stderr } = await chat({}, 'x');
  assert.equal(code, 1);
  assert.match(stderr, /error engine_exited: It broke\./);
  assert.ok(allRevoked());
});

test('a refusal of the gateway is shown, and the key is revoked', async () => {
  api.chat = (_, response) => {
    response.writeHead(400, { 'x-request-id': 'req-9' });
    response.end(JSON.stringify({ error: { message: 'Too long.', code: 'context_length' } }));
  };
  const { code, stderr } = await chat({}, 'x');
  assert.equal(code, 5);
  assert.equal(stderr, 'error context_length: Too long.\n  request: req-9\n');
  assert.ok(allRevoked());
});

test('Ctrl-C ends the answer, closes the connection, and exits 130', async () => {
  const closed = Promise.withResolvers<void>();
  answerWith((response) => {
    response.on('close', closed.resolve);
    response.write(words('and so on'));
  });
  const { code, stderr } = await chat(
    { onOutput: (all, _, interrupt) => all.includes('on') && interrupt() },
    'x',
  );
  await closed.promise;
  assert.equal(code, 130);
  assert.match(stderr, /\(interrupted\)/);
  assert.ok(allRevoked());
});

test('an answer that ended at its length limit says so', async () => {
  answerWith((response) => response.end(`${words('a')}${finish('length')}data: [DONE]\n\n`));
  const { code, stderr } = await chat({}, 'x');
  assert.equal(code, 0);
  assert.match(stderr, /ended at its length limit/);
});

test('terminal escapes in an answer are dropped, even when split between pieces', async () => {
  answerWith((response) => response.end(`${words('a\u001b', '[2Jb\u0007')}data: [DONE]\n\n`));
  assert.equal((await chat({}, 'x')).stdout, 'a[2Jb\n');
});

test('without a message a pipe is read', async () => {
  const { code } = await chat({ input: 'from a pipe\n' });
  assert.equal(code, 0);
  assert.equal(asked[0]?.messages[0]?.content, 'from a pipe\n');
  assert.equal((await chat({ input: '' })).code, 2);
});

test('a workload that cannot answer is refused with what helps, before a key is made', async () => {
  api.workloads.set('w1', workload({ name: 'smol', state: 'stopped' }));
  const stopped = await chat({}, 'x');
  assert.equal(stopped.code, 5);
  assert.match(
    stopped.stderr,
    /error not_ready: smol is stopped[\s\S]*fix: bin\/einsora start smol/,
  );
  api.workloads.set('w1', workload({ name: 'smol', kind: 'vm' }));
  assert.equal((await chat({}, 'x')).code, 2);
  assert.equal(api.keys.size, 0);
});

test('a conversation on a terminal remembers, and Ctrl-D ends it', async () => {
  let turn = 0;
  const { code } = await chat({
    tty: true,
    onOutput(all, type) {
      const prompts = all.split('>>> ').length - 1;
      const answers = all.split('Hello 🙂.\n').length - 1;
      if (turn === 0 && prompts >= 1) {
        turn = 1;
        type('first\r');
      } else if (turn === 1 && answers === 1) {
        turn = 2;
        type('second\r');
      } else if (turn === 2 && answers === 2) {
        turn = 3;
        type('\u0004');
      }
    },
  });
  assert.equal(code, 0);
  assert.deepEqual(asked[1]?.messages, [
    { role: 'user', content: 'first' },
    { role: 'assistant', content: 'Hello 🙂.' },
    { role: 'user', content: 'second' },
  ]);
  assert.equal(api.keys.size, 1);
  assert.ok(allRevoked());
});

test('Ctrl-C in a conversation ends the answer and not the conversation', async () => {
  const endless = Promise.withResolvers<void>();
  answerWith((response) => {
    if (asked.length === 1) {
      response.on('close', endless.resolve);
      response.write(words('endless'));
    } else {
      response.end(`${words('fine')}data: [DONE]\n\n`);
    }
  });
  let turn = 0;
  const { code, stderr } = await chat({
    tty: true,
    onOutput(all, type) {
      if (turn === 0 && all.includes('>>> ')) {
        turn = 1;
        type('go\r');
      } else if (turn === 1 && all.includes('endless')) {
        turn = 2;
        type('\u0003');
        void endless.promise.then(() => type('again\r'));
      } else if (turn === 2 && all.includes('fine')) {
        turn = 3;
        type('\u0004');
      }
    },
  });
  assert.equal(code, 0);
  assert.match(stderr, /\(interrupted\)/);
  assert.deepEqual(
    asked[1]?.messages.map(({ content }) => content),
    ['go', 'endless', 'again'],
  );
});
