/**
 * What is counted of an answer that does not come to its end.
 */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { open, type Rig, replica, send, smol, startRig } from '../../../test/lib/gateway-rig.ts';
import { chatEvent, type Script } from '../../../test/lib/upstream.ts';
import type { RequestRecord } from '../request-record.ts';

let rig: Rig;
let engine = 'llama-server';
let records: RequestRecord[] = [];
beforeEach(async () => {
  records = [];
  const { endpoint } = smol(replica);
  rig = await startRig({
    findEndpoint: async () => ({ ok: true, endpoint: { ...endpoint, engine } }),
    record: (record) => void records.push(record),
  });
});
afterEach(() => rig.close());

const usage = (completion_tokens: number) => ({
  ...{ prompt_tokens: 9, completion_tokens, total_tokens: 9 + completion_tokens },
});
/** An event of several tokens, with what was used so far. */
const counted = (content: string, completion_tokens: number) =>
  chatEvent(content).replace(
    /\}\n\n$/,
    `,"usage":${JSON.stringify(usage(completion_tokens))}}\n\n`,
  );

function startThen(text: string, last: (reply: Parameters<Script>[0]) => void): Script {
  return async (reply) => {
    reply.setHeader('Content-Type', 'text/event-stream');
    await new Promise((resolve) => reply.write(text, resolve));
    last(reply);
  };
}

const asked = { model: 'smol', stream: true, messages: [{ role: 'user', content: 'abcdefgh' }] };

test('where nothing is told an event is a token, and four bytes of the prompt are', async () => {
  engine = 'llama-server';
  const cut = chatEvent('one') + chatEvent('two') + chatEvent('three');
  rig.upstream.answer(startThen(cut, (reply) => reply.destroy()));
  await send(rig, { body: asked });
  await rig.settled();
  assert.deepEqual(records[0]?.use, {
    ...{ prompt_tokens: 3, completion_tokens: 3, cached_tokens: 0, is_estimated: true },
  });
});

test('where each event tells it is the last that was told, whoever went first', async () => {
  engine = 'vllm';
  const cut = counted('so much', 4) + counted('at once', 8);
  rig.upstream.answer(startThen(cut, (reply) => reply.destroy()));
  const got = await send(rig, { body: asked });
  assert.doesNotMatch(got.text, /usage/, 'its client did not ask');
  rig.upstream.answer(startThen(cut, () => {}));
  const opening = open(rig, { body: asked });
  const answer = await opening;
  await new Promise((resolve) => answer.once('data', resolve));
  opening.leave();
  await rig.settled();
  assert.deepEqual(
    records.map(({ outcome, use }) => [outcome, use.completion_tokens, use.is_estimated]),
    [
      ['cut', 8, true],
      ['client_left', 8, true],
    ],
  );
});
