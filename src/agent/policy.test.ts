import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { brokenRule, refuses_nothing } from '../core/refusals.ts';
import { exec } from '../lib/exec.ts';
import { default_policy, isWithin, locked_policy, readPolicy } from './policy.ts';
import { openPolicy } from './policy-source.ts';

const gib = 2 ** 30;

test('an empty policy is the default one', () => {
  assert.deepEqual(readPolicy('{}'), { ok: true, policy: default_policy });
});

test('every setting of a policy is read', () => {
  const text = JSON.stringify({
    applies_to: 'everyone',
    guests: {
      ...{ allow: true, kinds: ['notebook'], tenants: ['friends'], drivers: ['libvirt'] },
      ...{ images: { allow: ['ghcr.io/lab/'], deny: ['ghcr.io/lab/old'] } },
      ...{ max_cpu: 1.5, max_memory: '4GiB', max_gpus: 0, hours: ['22:00-07:00', '12:00-13:00'] },
    },
    reserve: { cpu: 2, memory: '8GiB', disk: '50GB' },
    ...{ when_active: 'reclaim', on_battery: 'ignore', when_gpu_used: 'admit_nothing' },
    ...{ away: '10m', grace: '90s', heat: { cpu: 85, gpu: 80 } },
  });
  assert.deepEqual(readPolicy(text), {
    ok: true,
    policy: {
      applies_to: 'everyone',
      refuses: {
        ...{ guests: true, kinds: ['notebook'], tenants: ['friends'], drivers: ['libvirt'] },
        ...{ images_allow: ['ghcr.io/lab/'], images_deny: ['ghcr.io/lab/old'] },
        ...{ max_cpu_millis: 1500, max_memory_bytes: 4 * gib, max_gpus: 0 },
      },
      hours: [
        { from: 1320, to: 420 },
        { from: 720, to: 780 },
      ],
      reserve: { cpu_millis: 2000, memory_bytes: 8 * gib, disk_bytes: 50e9 },
      ...{ when_active: 4, on_battery: 0, when_gpu_used: 1 },
      ...{ away_ms: 600_000, grace_ms: 90_000, heat: { cpu: 85, gpu: 80 } },
    },
  });
});

const wrong: [string, string, number | null, RegExp][] = [
  ['a setting that is not known', '{\n\n "gests": {}\n}', 3, /there is no setting gests/],
  ['one below another', '{"guests":\n{"max_gpu": 1}}', 2, /no setting guests\.max_gpu/],
  ['an answer that is none', '{\n"when_active": "kill"\n}', 2, /when_active: /],
  ['a size without a unit', '{"reserve": {\n"memory": "4"}}', 2, /give a size such as 4GiB/],
  ['hours that are none', '{"guests": {"hours": ["25:00-07:00"]}}', 1, /give hours such as/],
  ['a comma too many', '{\n "away": "5m",\n}', 3, /no JSON/],
  ['an end that is missing', '{\n "away": "5m"\n', 2, /no JSON/],
  ['no object', '[]', null, /it: /],
  ['nothing', '', 1, /no JSON/],
  ['a kind that is none', '{"guests": {"kinds": ["pod"]}}', 1, /guests\.kinds/],
  ['a negative amount', '{"reserve": {"cpu": -1}}', 1, /reserve\.cpu/],
  ['far too much', `{"a": "${'x'.repeat(70_000)}"}`, null, /over 64 KiB/],
];

for (const [what, text, line, problem] of wrong) {
  test(`a policy is refused for ${what}, with its line`, () => {
    const found = readPolicy(text);
    assert.equal(found.ok, false);
    if (found.ok) return;
    assert.match(found.problem, problem);
    assert.equal(found.line, line);
  });
}

test('hours may go over midnight', () => {
  const night = [{ from: 1320, to: 420 }];
  assert.deepEqual(
    [0, 419, 420, 1319, 1320].map((minute) => isWithin(night, minute)),
    [true, true, false, false, true],
  );
  assert.equal(isWithin(null, 0), true);
});

test('each rule refuses what it names and lets the rest be', () => {
  const ask = {
    ...{ kind: 'instance' as const, image_id: 'ghcr.io/lab/x:1' },
    ...{ cpu_millis: 1000, memory_bytes: gib, gpu_count: 1 },
  };
  const rule = (over: Partial<typeof refuses_nothing>) =>
    brokenRule({ ...refuses_nothing, ...over }, ask, 'friends', 'libvirt');
  assert.equal(rule({}), null);
  assert.equal(rule({ guests: false }), 'guests.allow');
  assert.equal(rule({ kinds: ['vm'] }), 'guests.kinds');
  assert.equal(rule({ kinds: ['vm', 'instance'] }), null);
  assert.equal(rule({ tenants: ['others'] }), 'guests.tenants');
  assert.equal(rule({ tenants: ['friends'] }), null);
  assert.equal(rule({ drivers: ['macos-vz'] }), 'guests.drivers');
  assert.equal(rule({ images_deny: ['ghcr.io/lab/'] }), 'guests.images.deny');
  assert.equal(rule({ images_allow: ['docker.io/'] }), 'guests.images.allow');
  assert.equal(rule({ images_allow: ['ghcr.io/lab/'] }), null);
  assert.equal(rule({ max_cpu_millis: 999 }), 'guests.max_cpu');
  assert.equal(rule({ max_cpu_millis: 1000 }), null);
  assert.equal(rule({ max_memory_bytes: gib - 1 }), 'guests.max_memory');
  assert.equal(rule({ max_gpus: 0 }), 'guests.max_gpus');
  const unknown = brokenRule({ ...refuses_nothing, tenants: ['friends'] }, ask, null, null);
  assert.equal(unknown, 'guests.tenants', 'who is not known is nobody that is named');
});

test('a policy counts as it is now; a bad one leaves the last good one; none is the default', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-policy-'));
  const path = join(folder, 'policy.json');
  const other = join(folder, 'other.json');
  try {
    const source = openPolicy([path, other]);
    assert.deepEqual(source.current(), { policy: default_policy, path: null, problem: null });
    writeFileSync(other, '{"away": "1m"}');
    assert.equal(source.current().policy.away_ms, 60_000);
    writeFileSync(path, '{"away": "2m"}');
    assert.deepEqual([source.current().policy.away_ms, source.current().path], [120_000, path]);
    writeFileSync(path, '{"away": "2m"');
    const bad = source.current();
    assert.equal(bad.policy.away_ms, 120_000);
    assert.match(bad.problem ?? '', /^line 1: no JSON/);
    assert.deepEqual(openPolicy([path]).current().policy, locked_policy);
    rmSync(path);
    await exec('mkfifo', [path], { timeout_ms: 10_000, env: { PATH: '/usr/bin:/bin' } });
    assert.match(openPolicy([path]).current().problem ?? '', /no plain file/);
    rmSync(path);
    mkdirSync(path);
    assert.match(openPolicy([path]).current().problem ?? '', /no plain file/);
    rmSync(path, { recursive: true });
    rmSync(other);
    assert.deepEqual(source.current().policy, default_policy);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
