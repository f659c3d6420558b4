/**
 * A client that leaves, in each phase: the engine is let go, and so is all that was held for it.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { all_seams, countSeams } from '../../test/lib/counted-seams.ts';
import { open, storedKey } from '../../test/lib/gateway-rig.ts';
import { startReplicaRig } from '../../test/lib/replica-rig.ts';
import { chatEvent, type Script } from '../../test/lib/upstream.ts';
import type { GatewayOptions } from './gateway.ts';
import type { Waiting } from './stop.ts';

const phases = ['key', 'found', 'turn', 'asked', 'answering'] as const;
type Phase = (typeof phases)[number];

const begins: Script = (reply) => {
  reply.setHeader('Content-Type', 'text/event-stream');
  reply.write(chatEvent('so'));
};

/** What is waited for in each phase: `reached` is told, and the client's leaving ends it. */
function waitIn(phase: Phase, reached: () => void, left: Promise<void>): Partial<GatewayOptions> {
  const hang = (stop: Waiting) =>
    new Promise<void>((resolve) => {
      stop.on(resolve);
      reached();
    });
  switch (phase) {
    case 'key':
      return {
        async findKey() {
          reached();
          await left;
          return storedKey;
        },
      };
    case 'found':
      return {
        async findEndpoint(_key, _model, stop) {
          await hang(stop);
          return { ok: false, code: 'endpoint_waking', details: {} };
        },
      };
    case 'turn':
      return {
        turns: {
          async enter({ stop }) {
            await hang(stop);
            return { ok: false, refusal: { status: 503, message: '', code: 'x' } };
          },
          standing: () => [],
        },
      };
    case 'asked':
    case 'answering':
      return {};
  }
}

test('a client that leaves is gone in each phase, and nothing is held for it', async () => {
  for (const phase of phases) {
    const { limiter, turns, ...seams } = countSeams();
    let reached = () => {};
    const here = new Promise<void>((resolve) => {
      reached = resolve;
    });
    let leave = () => {};
    const client_left = new Promise<void>((resolve) => {
      leave = resolve;
    });
    const rig = await startReplicaRig(
      [(reply, seen) => (phase === 'answering' ? begins(reply, seen) : undefined)],
      { limiter, turns, ...waitIn(phase, () => reached(), client_left) },
    );
    const asked = rig.engines[0]?.next();
    const client = open(rig);
    if (phase === 'key' || phase === 'found' || phase === 'turn') await here;
    else await asked;
    if (phase === 'answering') {
      const answer = await client;
      await new Promise((resolve) => answer.once('readable', resolve));
    }
    const left = rig.left();
    client.leave();
    await left;
    leave();
    await rig.settled();
    assert.ok(
      rig.logged.every(({ message }) => message === 'gateway request'),
      phase,
    );
    const [record] = rig.records;
    assert.deepEqual([rig.records.length, record?.outcome], [1, 'client_left'], phase);
    assert.equal(record?.status, phase === 'answering' ? 200 : null);
    if (phase === 'asked' || phase === 'answering') await (await asked)?.gone;
    else assert.deepEqual(rig.asked(), [0]);
    const held = {
      key: [],
      found: [],
      turn: ['settle', 'end'],
      asked: all_seams,
      answering: all_seams,
    }[phase];
    assert.deepEqual(seams.order, held, phase);
    await rig.close();
  }
});
