/**
 * Questions to hubs: answered once a minute for each tenant and token, bounded, and in time.
 */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { createFakeClock, settle } from '../../test/lib/fake-clock.ts';
import { type FakeHub, startFakeHub } from '../../test/lib/fake-hub.ts';
import { Secret } from '../lib/secret.ts';
import { createModelSources } from './model-sources.ts';

let hub: FakeHub;
before(async () => {
  hub = await startFakeHub();
  hub.put('o/r', 'm.gguf', Buffer.from('GGUF'));
  hub.put('o/gated', 'm.gguf', Buffer.from('GGUF'));
  hub.close_repo('o/gated', 'gated');
});
after(() => hub.close());
beforeEach(() => {
  hub.faults = {};
  hub.requests.length = 0;
});

function open() {
  const clock = createFakeClock();
  const tokens: Record<string, string> = {};
  const trusted_origins = [hub.url, hub.files_origin];
  const sources = createModelSources({
    sources: { net: { clock, trusted_origins }, hub_url: hub.url },
    clock,
    hubToken: async (tenant) => (tokens[tenant] === undefined ? null : new Secret(tokens[tenant])),
  });
  return { ...sources, clock, tokens };
}
const lists = () => hub.requests.filter(({ path }) => path.includes('/tree/')).length;

test('an answer is kept for a minute; what is of no hub asks nobody', async () => {
  const { look, clock } = open();
  const [first, second] = await Promise.all([look('t', 'hf://o/r'), look('t', 'hf.co/o/r')]);
  assert.deepEqual(first, second);
  assert.equal(lists(), 1);
  await clock.advance(59_000);
  await look('t', 'hf://o/r');
  assert.equal(lists(), 1);
  await clock.advance(2000);
  await look('t', 'hf://o/r');
  assert.equal(lists(), 2);
  assert.equal(await look('t', 'smollm2-135m'), null);
  assert.equal(await look('t', '/a/b.gguf'), null);
});

test('an answer is for its tenant and token alone, and a refusal is not kept', async () => {
  const { look, tokens } = open();
  tokens.ada = hub.token;
  assert.equal((await look('ada', 'hf://o/gated'))?.main, 'm.gguf');
  await assert.rejects(look('eve', 'hf://o/gated'), { code: 'hub_gated' });
  tokens.eve = hub.token;
  assert.equal((await look('eve', 'hf://o/gated'))?.main, 'm.gguf');
  tokens.eve = 'another';
  await assert.rejects(look('eve', 'hf://o/gated'), { code: 'hub_token_refused' });
});

test('what fails for a moment is asked once more, what asks to wait is told', async () => {
  const { look, clock } = open();
  hub.faults = { status: { code: 502 } };
  const failing = look('t', 'hf://o/r').catch((error: unknown) => error);
  const [code] = await Promise.all([
    failing.then((error) => (error as { code: string }).code),
    (async () => {
      while (hub.requests.length < 2) await clock.advance(100);
    })(),
  ]);
  assert.equal(code, 'hub_failing');
  assert.equal(hub.requests.length, 2);
  hub.faults = { status: { code: 429, headers: { 'retry-after': '60' } } };
  await assert.rejects(look('t', 'hf://o/r'), { code: 'hub_rate_limited' });
  assert.equal(hub.requests.length, 3);
});

test('questions at once are bounded, and one that gets no answer ends in time', async () => {
  const { look, clock } = open();
  hub.faults = { silent: true };
  const asked = Array.from({ length: 17 }, (_, index) =>
    look('t', `hf://o/r${index}`).then(
      () => 'answered',
      (error: { code: string }) => error.code,
    ),
  );
  await settle();
  await clock.advance(25_000);
  const codes = await Promise.all(asked);
  assert.deepEqual(codes.slice(0, 16), Array(16).fill('hub_unreachable'));
  assert.equal(codes[16], 'too_many_requests');
});
