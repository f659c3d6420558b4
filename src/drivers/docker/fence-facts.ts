/**
 * What the fence has to know of the machine: its networks, and where DNS questions go.
 *
 * Invariants: read anew each time it is asked; what cannot be read is left out; only IPv4, and only
 * what is well-formed, comes out, because it becomes the text of a ruleset.
 */
import { readFileSync } from 'node:fs';
import { BlockList, isIPv4 } from 'node:net';
import { networkInterfaces } from 'node:os';
import { private_ranges } from './fence-rules.ts';

/** A network so wide is a setting of a tunnel or a cloud, not a place of neighbours. */
const widest_prefix = 8;
const files_read = {
  plain: '/etc/resolv.conf',
  /** Where the plain one names a resolver of this machine's loopback, Docker reads this one. */
  behind: '/run/systemd/resolve/resolv.conf',
  daemon: '/etc/docker/daemon.json',
};

/**
 * The IPv4 networks that the machine's interfaces stand in, as `address/prefix`; private ones,
 * which come and go with every bridge of the engine, are left out: they are blocked as such.
 */
export function nearNetworks(interfaces = networkInterfaces()): string[] {
  const all = Object.values(interfaces).flatMap((one) => one ?? []);
  const cidrs = all.filter(({ family, internal }) => family === 'IPv4' && !internal);
  const all_near = cidrs.flatMap(({ cidr }) => networkOf(cidr ?? '') ?? []);
  return all_near.filter((network) => !isPrivate(network));
}

function isPrivate(network: string): boolean {
  const ranges = new BlockList();
  for (const range of private_ranges) {
    const [address = '', prefix = ''] = range.split('/');
    ranges.addSubnet(address, Number(prefix));
  }
  return ranges.check(network.split('/')[0] ?? '');
}

/** `192.0.2.7/24` gives `192.0.2.0/24`; null for what is too wide or no such thing. */
function networkOf(cidr: string): string | null {
  const [address = '', length = ''] = cidr.split('/');
  const prefix = Number(length);
  if (!isIPv4(address) || !Number.isInteger(prefix) || prefix < widest_prefix) return null;
  const number = address.split('.').reduce((all, part) => all * 256 + Number(part), 0);
  const size = 2 ** (32 - prefix);
  const first = Math.floor(number / size) * size;
  const parts = [24, 16, 8, 0].map((shift) => Math.floor(first / 2 ** shift) % 256);
  return `${parts.join('.')}/${prefix}`;
}

/** The resolvers that guests' questions are sent on to, outside of the machine's loopback. */
export function resolversOf(read: (path: string) => string | null = readText): string[] {
  const plain = nameservers(read(files_read.plain) ?? '');
  const is_behind = plain.length > 0 && plain.every(isLoopback);
  const named = is_behind ? nameservers(read(files_read.behind) ?? '') : plain;
  const all = [...named, ...daemonResolvers(read(files_read.daemon))];
  return all.filter((address) => isIPv4(address) && !isLoopback(address));
}

function nameservers(text: string): string[] {
  return text.split('\n').flatMap((line) => /^\s*nameserver\s+(\S+)/.exec(line)?.[1] ?? []);
}

function daemonResolvers(text: string | null): string[] {
  try {
    const { dns } = JSON.parse(text ?? '{}') as { dns?: unknown };
    return Array.isArray(dns) ? dns.map(String) : [];
  } catch {
    return [];
  }
}

function isLoopback(address: string): boolean {
  return address.startsWith('127.') || address === '::1';
}

function readText(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}
