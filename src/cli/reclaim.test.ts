/**
 * `einsora machine reclaim` and `release`: what is asked, and what is said of it.
 */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { type FakeApi, openFakeApi } from '../../test/lib/fake-api.ts';
import { now_ms, workload } from '../../test/lib/fake-records.ts';
import { runCli } from '../../test/lib/run-cli.ts';
import type { MachineReclaim } from '../contract/reclaim.ts';
import type { Workload } from '../contract/workloads.ts';
import { momentAhead } from './moment.ts';

const minute_ms = 60_000;
let api: FakeApi;
beforeEach(async () => {
  api = await openFakeApi();
});
afterEach(() => api.close());

const grace: MachineReclaim = {
  ...{ phase: 'grace', scope: 'guests', why: 'owner_asked', why_text: 'its owner asks for it' },
  ...{ since: now_ms, starts_at: null, stops_at: now_ms + 5 * minute_ms, until: null, by: 'ada' },
};

function given(reclaim: MachineReclaim | null, is_yours = true): void {
  const amounts = { cpu_millis: 8000, memory_bytes: 2 ** 35, disk_bytes: 1e11 };
  const about = { name: 'desk', region: 'local', owner: 'ada', sharing: 'community' };
  const more = { invited: [], is_yours, drained_at: null, caps: null, inventory: null };
  const facts = { online: true, last_seen_at: now_ms, offered: amounts, held: amounts };
  api.machines = { items: [{ id: 'm1', ...about, ...facts, ...more, workloads: [], reclaim }] };
}

async function asked(...words: string[]): Promise<unknown> {
  given(grace);
  const { code, stderr } = await runCli(['machine', 'reclaim', ...words], api);
  assert.equal(code, 0, stderr);
  return api.calls.at(-1)?.body;
}

test('each way to ask is one request', async () => {
  assert.deepEqual(await asked(), { scope: 'guests' });
  assert.equal(api.calls.at(-1)?.path, '/v1/machines/m1/reclaim');
  assert.deepEqual(await asked('desk', '--now', '--all'), { grace_ms: 0, scope: 'all' });
  assert.deepEqual(await asked('--in', '2h', '--grace', '10m', '--guests-only'), {
    ...{ in_ms: 120 * minute_ms, grace_ms: 10 * minute_ms, scope: 'guests' },
  });
  assert.deepEqual(await asked('--when-active', '--until', '3h'), {
    ...{ when_active: true, until: now_ms + 180 * minute_ms, scope: 'guests' },
  });
  assert.deepEqual(await asked('--at', '2126-01-31T18:00Z'), {
    ...{ at: Date.parse('2126-01-31T18:00Z'), scope: 'guests' },
  });
});

test('what contradicts itself is a usage error, before anything is asked', async () => {
  for (const words of [
    ['--now', '--in', '2h'],
    ['--now', '--grace', '2m'],
    ['--at', '18:00', '--in', '2h'],
    ['--in', '2h', '--when-active'],
    ['--all', '--guests-only'],
    ['--at', 'soon'],
  ]) {
    given(grace);
    const { code } = await runCli(['machine', 'reclaim', ...words], api);
    assert.equal(code, 2, words.join(' '));
  }
  assert.deepEqual(
    api.calls.filter(({ method }) => method === 'POST'),
    [],
  );
});

test('what is of others is told before anything is asked', async () => {
  given(null, false);
  const { code, stderr } = await runCli(['machine', 'reclaim', 'desk'], api);
  assert.notEqual(code, 0);
  assert.match(stderr, /machine_not_yours: .*desk/);
  assert.equal(api.calls.at(-1)?.method, 'GET');
});

test('it says how it stands, and so do machines and machine show', async () => {
  given(grace);
  const { stdout } = await runCli(['machine', 'reclaim'], api);
  assert.equal(
    stdout,
    'desk: taken back in 5m 0s: its owner asks for it (guests; your own stay).\n',
  );
  assert.match((await runCli(['machines'], api)).stdout, /online, taken back in 5m 0s/);
  const shown = await runCli(['machine', 'show'], api);
  assert.match(shown.stdout, /^reclaim +taken back in 5m 0s: its owner asks for it$/m);
  given({ ...grace, phase: 'held', stops_at: null, until: now_ms + minute_ms });
  const held = await runCli(['machine', 'show'], api);
  assert.match(held.stdout, /^reclaim +taken back since \S+ \S+ UTC: .*, until \S+ \S+ UTC$/m);
  given(null);
  const released = await runCli(['machine', 'release'], api);
  assert.match(released.stdout, /guests may come/);
});

test('ls and show count down for whoever has something there', async () => {
  const told: Workload['reclaim'] = {
    ...{ phase: 'grace', why_text: 'it is in use by its owner' },
    ...{ starts_in_ms: 0, stops_in_ms: 4 * minute_ms },
  };
  api.workloads.set('w1', workload({ reclaim: told }));
  const { stdout } = await runCli(['ls'], api);
  assert.match(
    stdout,
    /will be stopped: taken back by the machine's owner in 4m 0s \(it is in use/,
  );
  const shown = await runCli(['show', 'w1'], api);
  assert.match(
    shown.stdout,
    /^notice +will be stopped: taken back by the machine's owner in 4m 0s/m,
  );
  const stopping = { state: 'stopping', park_cause: 'preempted', heard_of: false } as const;
  api.workloads.set('w1', workload(stopping));
  assert.match((await runCli(['ls'], api)).stdout, /will stop when box1 is back/);
  api.workloads.set('w1', workload({ ...stopping, heard_of: true }));
  assert.match((await runCli(['ls'], api)).stdout, /stopping \(preempted\)/);
});

test('a time of the day is the next one by this computer', () => {
  const noon = new Date(2026, 5, 1, 12, 0).getTime();
  assert.equal(momentAhead('18:30', noon), new Date(2026, 5, 1, 18, 30).getTime());
  assert.equal(momentAhead('8:00', noon), new Date(2026, 5, 2, 8, 0).getTime());
  assert.equal(momentAhead('12:00', noon), new Date(2026, 5, 2, 12, 0).getTime());
  assert.equal(momentAhead('90m', noon), noon + 90 * minute_ms);
  assert.throws(() => momentAhead('25:00', noon));
});
