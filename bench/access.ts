/**
 * The access proxy: what it costs to open a workload's page through it, beside the least proxy that
 * node:http makes, configurable-http-proxy and nginx.
 *
 * Invariants: all stand before the same program and take turns in each round; each is a process of
 * its own; all are sent the same request, cookie included; figures are medians of the rounds, and
 * ratios those of the rounds' own pairs.
 */
import { join } from 'node:path';
import type { Asked } from './access-child.ts';
import { latency, megabytesPerSecond, requestsPerSecond } from './access-load.ts';
import { startAccessNginx, startChp } from './access-peers.ts';
import { startScript } from './child.ts';
import { median, printTable, rounded } from './figures.ts';
import { isMissing, type Peer } from './peer.ts';

const connections = 64;

type Round = { rps: number; p50_ms: number; mbps: number };
type Side = { name: string; asked: Asked; rounds: Round[]; stop(): Promise<void> | void };

export async function bench({ quick }: { quick: boolean }) {
  // Many short rounds: what else the machine does changes by the second, and is to meet all alike.
  const rounds = quick ? 2 : 21;
  const how = quick
    ? { ms: 600, requests: 500, bytes: 128e6 }
    : { ms: 700, requests: 1000, bytes: 3e8 };
  const program = await child('program');
  const upstream = program.asked.port;
  const sides: Side[] = [
    { name: 'product', rounds: [], ...(await child('product', upstream)) },
    { name: 'bare', rounds: [], ...(await child('bare', upstream)) },
  ];
  const missing: Record<string, string> = {};
  for (const [name, peer] of [
    ['chp', await startChp(upstream)],
    ['nginx', await startAccessNginx(upstream)],
  ] as const) {
    if (isMissing(peer)) missing[name] = peer.missing;
    else sides.push(peerSide(name, peer));
  }
  const headers = sides[0]?.asked.headers ?? [];
  for (const side of sides) side.asked = { ...side.asked, headers };
  try {
    for (const side of sides) await requestsPerSecond(side.asked, connections, quick ? 300 : 3000);
    for (let round = 0; round < rounds; round += 1) {
      // Who goes first changes, so that a machine that gets slower meanwhile favours nobody.
      const order = round % 2 === 0 ? sides : [...sides].reverse();
      for (const side of order) side.rounds.push(await measure(side.asked, how));
    }
  } finally {
    for (const side of sides) await side.stop();
    program.stop();
  }
  return report(sides, missing, rounds);
}

async function measure(
  asked: Asked,
  how: { ms: number; requests: number; bytes: number },
): Promise<Round> {
  return {
    rps: await requestsPerSecond(asked, connections, how.ms),
    p50_ms: await latency(asked, how.requests),
    mbps: await megabytesPerSecond(asked, how.bytes),
  };
}

function report(sides: readonly Side[], missing: Record<string, string>, rounds: number) {
  const of = (name: string) => sides.find((side) => side.name === name)?.rounds ?? null;
  const product = of('product') ?? [];
  const bare = of('bare') ?? [];
  const ratio = (others: readonly Round[] | null, pick: (round: Round) => number) =>
    others === null
      ? null
      : rounded(median(product.map((round, at) => pick(round) / pick(others[at] ?? round))));
  const keys = {
    rps_vs_bare: ratio(bare, ({ rps }) => rps),
    rps_vs_chp: ratio(of('chp'), ({ rps }) => rps),
    rps_vs_nginx: ratio(of('nginx'), ({ rps }) => rps),
    mbps_vs_bare: ratio(bare, ({ mbps }) => mbps),
    added_vs_bare_p50_ms: rounded(
      median(product.map((round, at) => round.p50_ms - (bare[at]?.p50_ms ?? Number.NaN))),
    ),
    ...Object.fromEntries(
      sides.flatMap(({ name, rounds: own }) => [
        [`rps_${name}`, Math.round(median(own.map(({ rps }) => rps)))],
        [`rps_${name}_spread`, own.map(({ rps }) => Math.round(rps))],
        [`p50_ms_${name}`, rounded(median(own.map(({ p50_ms }) => p50_ms)))],
        [`mbps_${name}`, Math.round(median(own.map(({ mbps }) => mbps)))],
      ]),
    ),
    missing,
    rounds,
  };
  printTable(keys);
  return keys;
}

function child(role: string, upstream = 0) {
  const script = join(import.meta.dirname, 'access-child.ts');
  return startScript<Asked>(script, [role, String(upstream)]);
}

function peerSide(name: string, peer: Peer): Side {
  const host = `127.0.0.1:${peer.port}`;
  return { name, rounds: [], asked: { port: peer.port, host, headers: [] }, stop: peer.stop };
}
