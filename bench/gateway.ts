/**
 * The inference gateway: what it costs to ask an engine through it, beside the engine itself,
 * nginx, the least proxy that node:http makes, the least one that builds answers out of streams,
 * Portkey and LiteLLM.
 *
 * Invariants: all stand before the same made-up engine and take turns in each round; each is a
 * process of its own; all are asked the same; figures are medians of the rounds, and ratios those
 * of the rounds' own pairs; a peer that fails is left out, with the reason. The short form has no
 * Portkey and no LiteLLM.
 */
import { join } from 'node:path';
import { type Child, startScript } from './child.ts';
import { median, printTable, rounded } from './figures.ts';
import { holdStreams } from './gateway-held.ts';
import { type Asked, answersPerSecond, type Kind, latencies } from './gateway-load.ts';
import { startLiteLlm, startPortkey } from './gateway-peers.ts';
import { startNginx } from './nginx.ts';
import { isMissing, type Missing } from './peer.ts';
import { processorMs, residentMb } from './served-program.ts';

const connections = 50;
const held_streams = 4000;
const warm_ms = 15_000;

type Round = {
  rps: number;
  cpu_us: number | null;
  p50_ms: number;
  p99_ms: number;
  streams: number;
  rss_mb: number | null;
};
type Side = Child<Asked> & { name: string; rounds: Round[] };

export async function bench({ quick }: { quick: boolean }) {
  const rounds = quick ? 2 : 15;
  const ms = quick ? 500 : 700;
  const engine = await startScript<Asked>(script, ['mock']);
  const { sides, missing } = await startSides(engine, quick);
  try {
    const trying = (side: Side, work: () => Promise<void>) =>
      work().catch((error: Error) => {
        if (side.name === 'product') throw error;
        missing[side.name] = error.message;
      });
    for (const side of sides) {
      await trying(side, async () => {
        await warm(side.asked, 'plain', quick ? 2000 : 30_000);
        await warm(side.asked, 'stream', quick ? 500 : 5000);
      });
    }
    const left = () => sides.filter(({ name }) => missing[name] === undefined);
    for (let round = 0; round < rounds; round += 1) {
      // Who goes first changes, so that a machine that gets slower meanwhile favours nobody.
      for (const side of round % 2 === 0 ? left() : left().reverse()) {
        await trying(side, async () => void side.rounds.push(await measure(side, ms)));
      }
    }
    const keys = { ...report(left()), ...(await held(engine.asked)), missing, rounds };
    printTable(keys);
    return keys;
  } finally {
    for (const side of sides) await side.stop();
    engine.stop();
  }
}

const script = join(import.meta.dirname, 'gateway-child.ts');
const compiled = join(import.meta.dirname, '../.cache/bench-compiled');

/** The product as `bin/einsora` starts it: compiled by an earlier start, with its flags of Node. */
async function startOwn(name: string, engine: Asked): Promise<Child<Asked>> {
  const args = [name, String(engine.port)];
  if (name !== 'product') return startScript<Asked>(script, args);
  const as = { env: { NODE_COMPILE_CACHE: compiled }, node: ['--max-semi-space-size=8'] };
  (await startScript<Asked>(script, args, as)).stop();
  return startScript<Asked>(script, args, as);
}

async function held(engine: Asked): Promise<Record<string, unknown>> {
  const of = async (name: string) => {
    const fresh = await startOwn(name, engine);
    return holdStreams(fresh, engine, held_streams).finally(fresh.stop);
  };
  const [product, bare] = [await of('product'), await of('bare')];
  return {
    ...{ [`streams_held_${held_streams}_ok`]: product.ok, held: product.problem },
    ...{ rss_mb_held: product.rss_mb, rss_kb_per_stream: product.rss_kb_per_stream },
    rss_kb_per_stream_bare: bare.rss_kb_per_stream,
  };
}

async function startSides(engine: Child<Asked>, quick: boolean) {
  const { port } = engine.asked;
  const own = (name: string) => startOwn(name, engine.asked);
  const sides: Side[] = [];
  const missing: Record<string, string> = {};
  const add = (name: string, child: Child<Asked> | Missing) => {
    if (isMissing(child)) missing[name] = child.missing;
    else sides.push({ ...child, name, rounds: [] });
  };
  const peer = async (started: Promise<AskedPeer | Missing>) => {
    const had = await started;
    if (isMissing(had)) return had;
    const { pid, stop, headers = [] } = had;
    return { asked: { port: had.port, headers }, pid, stop };
  };
  add('product', await own('product'));
  add('bare', await own('bare'));
  add('building', await own('building'));
  add('direct', { ...engine, stop: () => {} });
  add('nginx', await peer(startNginx(port, '/health')));
  const left_out = { missing: 'left out of the short form' };
  add('portkey', quick ? left_out : await peer(startPortkey(port)));
  add('litellm', quick ? left_out : await peer(startLiteLlm(port)));
  return { sides, missing };
}

type AskedPeer = { port: number; pid: number; headers?: string[]; stop(): Promise<void> };

/** By count, for that is what compilers go by; a peer that is slow gets no longer than others. */
async function warm(asked: Asked, kind: Kind, answers: number): Promise<void> {
  const until = performance.now() + warm_ms;
  for (let count = 0; count < answers && performance.now() < until; ) {
    count += (await answersPerSecond(asked, kind, connections, 500)).count;
  }
}

async function measure({ asked, pid }: Side, ms: number): Promise<Round> {
  const before = processorMs(pid);
  const plain = await answersPerSecond(asked, 'plain', connections, ms);
  const after = processorMs(pid);
  const times = await latencies(asked, ms / 2);
  const streams = await answersPerSecond(asked, 'stream', connections, ms);
  const at = (part: number) => times[Math.floor(times.length * part)] ?? Number.NaN;
  const spent = before === null || after === null ? null : after - before;
  return {
    ...{ rps: plain.per_s, streams: streams.per_s, p50_ms: at(0.5), p99_ms: at(0.99) },
    cpu_us: spent === null ? null : (spent * 1000) / plain.count,
    rss_mb: residentMb(pid),
  };
}

function report(sides: readonly Side[]) {
  const of = (name: string) => sides.find((side) => side.name === name)?.rounds ?? null;
  const product = of('product') ?? [];
  const pairs = (name: string, of_pair: (ours: Round, theirs: Round) => number) => {
    const others = of(name);
    if (others === null) return null;
    const values = product.flatMap((ours, at) => {
      const theirs = others[at];
      return theirs === undefined ? [] : [of_pair(ours, theirs)];
    });
    return rounded(median(values));
  };
  const rps = (name: string) => pairs(name, (ours, theirs) => ours.rps / theirs.rps);
  return {
    rps_vs_bare: rps('bare'),
    rps_vs_building: rps('building'),
    rps_vs_nginx: rps('nginx'),
    rps_vs_portkey: rps('portkey'),
    rps_vs_litellm: rps('litellm'),
    rps_vs_direct: rps('direct'),
    cpu_vs_bare: pairs('bare', (a, b) => (a.cpu_us ?? Number.NaN) / (b.cpu_us ?? Number.NaN)),
    added_vs_bare_p50_ms: pairs('bare', (ours, theirs) => ours.p50_ms - theirs.p50_ms),
    added_vs_building_p50_ms: pairs('building', (ours, theirs) => ours.p50_ms - theirs.p50_ms),
    added_p99_ms: pairs('direct', (ours, theirs) => ours.p99_ms - theirs.p99_ms),
    rss_mb: rounded(median(product.map(({ rss_mb }) => rss_mb ?? Number.NaN)), 0),
    streams_per_s_vs_bare: pairs('bare', (ours, theirs) => ours.streams / theirs.streams),
    ...Object.fromEntries(sides.flatMap(({ name, rounds }) => own(name, rounds))),
  };
}

/** What one side reached by itself. */
function own(name: string, rounds: readonly Round[]): [string, unknown][] {
  const middle = (pick: (round: Round) => number | null, digits: number) =>
    rounded(median(rounds.map((round) => pick(round) ?? Number.NaN)), digits);
  return [
    [`rps_${name}`, middle(({ rps }) => rps, 0)],
    [`rps_${name}_spread`, rounds.map(({ rps }) => Math.round(rps))],
    [`cpu_us_${name}`, middle(({ cpu_us }) => cpu_us, 0)],
    [`p50_ms_${name}`, middle(({ p50_ms }) => p50_ms, 3)],
    [`p99_ms_${name}`, middle(({ p99_ms }) => p99_ms, 3)],
    [`streams_per_s_${name}`, middle(({ streams }) => streams, 0)],
    [`rss_mb_${name}`, middle(({ rss_mb }) => rss_mb, 0)],
  ];
}
