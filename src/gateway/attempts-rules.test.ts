/**
 * Whatever several engines do: what a client gets is what the rules say, and never half an answer
 * that looks whole.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { errorOf, type Got, send } from '../../test/lib/gateway-rig.ts';
import { type ReplicaRig, startReplicaRig } from '../../test/lib/replica-rig.ts';
import { chatEvent, finishEvent, type Script } from '../../test/lib/upstream.ts';

const parts = {
  ping: ': ping\n\n',
  role: 'data: {"choices":[{"index":0,"delta":{"role":"assistant"}}]}\n\n',
  content: chatEvent('so'),
  finish: finishEvent,
  done: 'data: [DONE]\n\n',
  error: 'data: {"error":{"message":"lost"}}\n\n',
  abort: 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"abort"}]}\n\n',
  garbage: 'data: {"choices":[\n\n',
  half: 'data: {"choices":[{"index":0,"delta":{"content":"ha',
} as const;
type Part = keyof typeof parts;
type Engine = { parts: Part[]; cuts: number[]; breaks: boolean };

const anyPart = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom<Part>('content', 'role', 'ping') },
  { weight: 4, arbitrary: fc.constantFrom<Part>('finish', 'done') },
  { weight: 3, arbitrary: fc.constantFrom<Part>('error', 'abort', 'garbage', 'half') },
);
const good: Part[] = ['role', 'content', 'content', 'finish', 'done'];
const anyEngine: fc.Arbitrary<Engine> = fc.record({
  // After half an event nothing comes any more.
  parts: fc.oneof(
    fc.array(anyPart, { maxLength: 6 }).map((all) => {
      const half = all.indexOf('half');
      return half === -1 ? all : all.slice(0, half + 1);
    }),
    fc.constant(good),
  ),
  cuts: fc.array(fc.nat(), { maxLength: 4 }),
  breaks: fc.boolean(),
});

function scriptOf({ parts: said, cuts, breaks }: Engine): Script {
  return async (reply) => {
    const bytes = Buffer.from(said.map((part) => parts[part]).join(''));
    const ends = [...cuts.map((at) => at % (bytes.length + 1)), bytes.length];
    const sorted = ends.toSorted((a, b) => a - b);
    reply.writeHead(200, { 'Content-Type': 'text/event-stream' });
    for (const [index, end] of sorted.entries()) {
      const piece = bytes.subarray(sorted[index - 1] ?? 0, end);
      if (piece.length > 0) await new Promise((resolve) => reply.write(piece, resolve));
    }
    if (breaks) reply.destroy();
    else reply.end();
  };
}

/** How far an engine's answer comes, by the rules alone. */
function judge({ parts: said }: Engine): { text: string; is_content: boolean; is_whole: boolean } {
  let text = '';
  let is_content = false;
  let is_finished = false;
  for (const part of said) {
    if (['error', 'abort', 'garbage', 'half'].includes(part)) break;
    if (part === 'done') return { text: text + parts.done, is_content, is_whole: is_finished };
    if (part === 'finish') is_finished = true;
    if (part === 'finish' || part === 'content') is_content = true;
    text += parts[part];
  }
  return { text, is_content, is_whole: false };
}

let rig: ReplicaRig;
const nothing: Script = (reply) => void reply.destroy();
before(async () => {
  rig = await startReplicaRig([nothing, nothing, nothing]);
});
after(() => rig.close());

/** Who answers whom a stream is for, and who answers whom a document is for. */
function expected(engines: readonly Engine[], is_stream: boolean) {
  let lost = 0;
  for (const [index, engine] of engines.entries()) {
    const judged = judge(engine);
    if (judged.is_whole || (is_stream && judged.is_content)) return { ...judged, index };
    if (judged.is_content) lost += 1;
    if (lost > 1) break;
  }
  return null;
}

function assertStream(got: Got, wanted: ReturnType<typeof expected>): void {
  if (wanted === null) {
    assert.ok(got.status >= 500 && got.whole, got.text);
    assert.equal(typeof errorOf(got).code, 'string');
    return;
  }
  assert.deepEqual([got.status, got.whole], [200, wanted.is_whole], got.text);
  if (wanted.is_whole) assert.equal(got.text, wanted.text);
  else {
    const told = got.text.indexOf('data: {"error"');
    // What an engine that ended without a reason sent last is its end, and no part of the answer.
    assert.equal(got.text.slice(0, told), wanted.text.replace(parts.done, ''));
    assert.match(got.text.slice(told), /^data: \{"error":\{.*\}\}\n\n$/);
  }
}

test('whatever three engines do, the client gets what the rules say', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(anyEngine, { minLength: 3, maxLength: 3 }),
      fc.boolean(),
      async (engines, is_stream) => {
        for (const [index, engine] of engines.entries()) {
          rig.engines[index]?.answer(scriptOf(engine));
        }
        rig.records.length = 0;
        const got = await send(rig, is_stream ? {} : { body: { model: 'smol', messages: [] } });
        await rig.settled();
        const wanted = expected(engines, is_stream);
        if (is_stream) assertStream(got, wanted);
        else if (wanted === null) assert.ok(got.status >= 500 && got.whole, got.text);
        else {
          const said = judge(engines[wanted.index] ?? assert.fail()).text.split('"so"').length - 1;
          assert.deepEqual([got.status, got.whole], [200, true], got.text);
          const { content } = JSON.parse(got.text).choices[0].message;
          assert.equal(content ?? '', 'so'.repeat(said));
        }
        const outcome = wanted === null ? 'refused' : wanted.is_whole ? 'answered' : 'cut';
        assert.deepEqual(
          rig.records.map((record) => [record.outcome, record.status]),
          [[outcome, got.status]],
        );
      },
    ),
    { seed: 64, numRuns: 150 },
  );
});
