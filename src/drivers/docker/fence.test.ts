/**
 * The fence as text, and what becomes of it when the kernel's rules are another's doing.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nearNetworks, resolversOf } from './fence-facts.ts';
import { type FenceFacts, fenceRules, noFence } from './fence-rules.ts';

const facts: FenceFacts = {
  table: 'einsora_0a',
  networks: [{ bridge: 'ein0a', door: { address: '172.18.0.1', port: 4610 } }],
  resolvers: ['10.255.255.53'],
  near: ['192.0.2.0/24', '172.17.0.0/16'],
  allow_lan: false,
};

test('the ruleset is one transaction that replaces what was there', () => {
  const lines = fenceRules(facts).split('\n');
  assert.deepEqual(lines.slice(0, 3), [
    'table inet einsora_0a',
    'delete table inet einsora_0a',
    'table inet einsora_0a {',
  ]);
  assert.equal(noFence('x'), 'table inet x\ndelete table inet x\n');
  assert.equal(fenceRules(facts), fenceRules({ ...facts, near: [...facts.near].reverse() }));
});

test('all private, near and special places are blocked, the near public ones too', () => {
  const text = fenceRules(facts);
  const set = /set local4 \{[^}]*elements = \{ ([^}]*) \}/.exec(text)?.[1]?.split(', ') ?? [];
  for (const place of ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10']) {
    assert.ok(set.includes(place), place);
  }
  for (const place of ['169.254.0.0/16', '127.0.0.0/8', '224.0.0.0/4', '192.0.2.0/24']) {
    assert.ok(set.includes(place), place);
  }
});

test('the owner who opens the local network opens neither the machine nor metadata', () => {
  const text = fenceRules({ ...facts, allow_lan: true });
  assert.doesNotMatch(text, /10\.0\.0\.0\/8|192\.0\.2\.0/);
  assert.match(text, /169\.254\.0\.0\/16/);
  assert.match(text, /iifname "ein0a" counter name arriving drop/);
});

test('into the machine leads one door, and none where there is none', () => {
  const open = 'iifname "ein0a" ip daddr 172.18.0.1 tcp dport 4610 accept';
  assert.ok(fenceRules(facts).includes(open));
  const closed = fenceRules({ ...facts, networks: [{ bridge: 'ein0a', door: null }] });
  assert.doesNotMatch(closed, /tcp dport/);
});

test('IPv6 is dropped before any address is looked at', () => {
  const text = fenceRules(facts).split('chain from_ein0a')[1] ?? '';
  assert.ok(text.indexOf('nfproto ipv6') < text.indexOf('ip daddr @resolvers4'));
});

test('without a resolver the set is there and empty', () => {
  assert.match(
    fenceRules({ ...facts, resolvers: [] }),
    /set resolvers4 \{\n {4}type ipv4_addr;\n {2}\}/,
  );
});

test('resolvers are those that the engine sends questions on to', () => {
  const reading = (files: Record<string, string>) => (path: string) => files[path] ?? null;
  const plain = { '/etc/resolv.conf': 'search x\nnameserver 10.0.0.1\nnameserver fd00::1\n' };
  assert.deepEqual(resolversOf(reading(plain)), ['10.0.0.1']);
  const behind = {
    '/etc/resolv.conf': 'nameserver 127.0.0.53\n',
    '/run/systemd/resolve/resolv.conf': 'nameserver 192.168.1.1\n',
  };
  assert.deepEqual(resolversOf(reading(behind)), ['192.168.1.1']);
  const daemon = { '/etc/docker/daemon.json': '{"dns":["9.9.9.9","; drop","127.0.0.1"]}' };
  assert.deepEqual(resolversOf(reading(daemon)), ['9.9.9.9']);
  assert.deepEqual(resolversOf(reading({ '/etc/docker/daemon.json': '{' })), []);
});

test('near are the networks of all interfaces but loopback and those too wide to be near', () => {
  const one = (cidr: string, internal = false) => ({
    ...{ address: '', netmask: '', mac: '', cidr, internal, family: 'IPv4' as const },
  });
  const found = nearNetworks({
    lo: [one('127.0.0.1/8', true)],
    eth0: [one('192.0.2.77/24'), one('10.1.2.3/20'), one('203.0.113.5/20')],
    tun0: [one('5.6.7.8/0'), one('198.51.100.9/32')],
  });
  assert.deepEqual(found, ['192.0.2.0/24', '203.0.112.0/20', '198.51.100.9/32']);
});
