/**
 * Which addresses a model may be fetched from: those of the public internet and no others, so that
 * a name given by a user cannot reach into the network of the machine's owner.
 *
 * Invariants: an allow-list for IPv6 (global unicast), a complete deny-list for IPv4; whatever
 * carries an IPv4 address inside (mapped, NAT64, 6to4, Teredo) is refused, since what it reaches is
 * not what it looks like; a text that is no plain address is refused.
 */
import { BlockList, isIP } from 'node:net';

/** Private, shared, loopback, link-local, documentation, benchmark, multicast, reserved. */
const denied4: readonly [string, number][] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
];
/** Inside 2000::/3: protocol assignments with Teredo and ORCHID, documentation, 6to4. */
const denied6: readonly [string, number][] = [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
];

const denied = new BlockList();
for (const [net, bits] of denied4) denied.addSubnet(net, bits, 'ipv4');
for (const [net, bits] of denied6) denied.addSubnet(net, bits, 'ipv6');
const global6 = new BlockList();
global6.addSubnet('2000::', 3, 'ipv6');

/** Whether a numeric address lies on the public internet. */
export function isPublicAddress(address: string): boolean {
  const family = isIP(address);
  if (family === 4) return !denied.check(address, 'ipv4');
  // A zone belongs to link-local addresses only.
  if (family !== 6 || address.includes('%')) return false;
  return global6.check(address, 'ipv6') && !denied.check(address, 'ipv6');
}

/** The host of a URL as an address, without the brackets of IPv6; null where it is a name. */
export function literalAddress(url: URL): string | null {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  return isIP(host) === 0 ? null : host;
}
