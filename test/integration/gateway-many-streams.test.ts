/**
 * Four thousand streams are open at once, in one gateway: each gets its own answer, whole.
 */
import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { test } from 'node:test';
import { open, readAll } from '../lib/gateway-rig.ts';
import { needs } from '../lib/parts.ts';
import { startReplicaRig } from '../lib/replica-rig.ts';
import { chatEvent, doneEvent, type Script } from '../lib/upstream.ts';

const count = 4000;
const at_a_time = 200;

test('4,000 streams are open at once, and each gets all of its own', needs('files'), async () => {
  let go = () => {};
  const going = new Promise<void>((resolve) => {
    go = resolve;
  });
  const engine: Script = async (reply, { body }) => {
    const { user } = JSON.parse(body);
    reply.setHeader('Content-Type', 'text/event-stream');
    reply.write(chatEvent(`for ${user}`));
    await going;
    reply.end(doneEvent);
  };
  const rig = await startReplicaRig([engine]);
  try {
    const answers: IncomingMessage[] = [];
    while (answers.length < count) {
      const some = Array.from({ length: at_a_time }, (_, index) =>
        open(rig, {
          body: { model: 'smol', stream: true, messages: [], user: answers.length + index },
        }),
      );
      answers.push(...(await Promise.all(some)));
    }
    assert.deepEqual(rig.asked(), [count], 'all of them are with the engine');
    go();
    for (const [user, answer] of answers.entries()) {
      const { text, whole } = await readAll(answer);
      assert.ok(whole);
      assert.equal(text, chatEvent(`for ${user}`) + doneEvent);
    }
    await rig.settled();
    const outcomes = new Set(rig.records.map(({ outcome }) => outcome));
    assert.deepEqual([rig.records.length, ...outcomes], [count, 'answered']);
    assert.deepEqual([rig.ends.length, new Set(rig.ends).size], [count, 1]);
  } finally {
    await rig.close();
  }
});
