import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isPublicAddress, literalAddress } from './source-address.ts';

test('addresses of the public internet are let through', () => {
  const open = ['1.1.1.1', '8.8.8.8', '9.255.255.255', '11.0.0.0', '100.63.255.255', '100.128.0.0'];
  const more = ['126.255.255.255', '128.0.0.1', '169.253.255.255', '172.15.255.255', '172.32.0.0'];
  const rest = ['192.0.1.0', '192.167.255.255', '192.169.0.0', '198.17.255.255', '198.20.0.0'];
  const six = ['2606:4700::1111', '2a00:1450:4001::1', '2400:cb00::1', '2001:200::1', '2003::1'];
  for (const address of [...open, ...more, ...rest, '223.255.255.255', ...six]) {
    assert.equal(isPublicAddress(address), true, address);
  }
});

test('every other kind of address is refused, at both ends of its range', () => {
  const table: Record<string, string[]> = {
    unspecified: ['0.0.0.0', '0.255.255.255', '::', '0:0:0:0:0:0:0:0'],
    loopback: ['127.0.0.1', '127.255.255.255', '::1'],
    private: ['10.0.0.0', '10.255.255.255', '172.16.0.0', '172.31.255.255', '192.168.0.0'],
    'private, the end': ['192.168.255.255', 'fc00::', 'fdff:ffff::1', 'fd12:3456::1'],
    'carrier NAT': ['100.64.0.0', '100.127.255.255'],
    'link-local, metadata': ['169.254.0.0', '169.254.169.254', '169.254.255.255', 'fe80::1'],
    'link-local, with a zone': ['fe80::1%eth0', 'febf::1', '2606:4700::1111%lo'],
    'site-local': ['fec0::1', 'feff::1'],
    mapped: ['::ffff:127.0.0.1', '::ffff:8.8.8.8', '::ffff:7f00:1', '::ffff:0:127.0.0.1'],
    compatible: ['::127.0.0.1', '::8.8.8.8'],
    NAT64: ['64:ff9b::7f00:1', '64:ff9b::8.8.8.8', '64:ff9b:1::1'],
    '6to4 and Teredo': ['2002:7f00:1::', '2002:808:808::1', '2001:0:1::1', '2001:1::1'],
    documentation: ['192.0.2.1', '198.51.100.1', '203.0.113.1', '2001:db8::1', '3fff::1'],
    'assignments, benchmarks': ['192.0.0.1', '192.0.0.170', '198.18.0.0', '198.19.255.255'],
    'relays, discard': ['192.88.99.1', '100::1', '5f00::1', '4000::1'],
    multicast: ['224.0.0.1', '239.255.255.255', 'ff02::1', 'ff0e::1'],
    'reserved, broadcast': ['240.0.0.1', '255.255.255.255'],
    'no address': [
      '',
      'localhost',
      '127.1',
      '0x7f.1',
      '2130706433',
      '1.1.1.1.',
      '[::1]',
      '010.8.8.8',
    ],
  };
  for (const [kind, addresses] of Object.entries(table)) {
    for (const address of addresses) {
      assert.equal(isPublicAddress(address), false, `${kind}: ${address}`);
    }
  }
});

test('an odd spelling of an address in a URL is read as the address that it is', () => {
  const loopback = ['127.1', '0x7f.1', '0x7f000001', '2130706433', '017700000001', '127.0.0.1.'];
  for (const host of [...loopback, '１２７.0.0.1', '127。0。0。1', '0177.0.0.01']) {
    const address = literalAddress(new URL(`https://${host}/x`));
    assert.equal(address, '127.0.0.1', host);
  }
  assert.equal(literalAddress(new URL('https://[::FFFF:127.0.0.1]/')), '::ffff:7f00:1');
  assert.equal(literalAddress(new URL('https://[0:0::1]/')), '::1');
  assert.equal(literalAddress(new URL('https://example.com/')), null);
  assert.equal(literalAddress(new URL('https://0x.example/')), null);
});
