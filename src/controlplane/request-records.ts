/**
 * What is known of the gateway's requests: their records on the way to the store, the last minute,
 * and metrics since the program began, with those of the program itself.
 *
 * Invariants: one record counts once in each; recording never waits for the store.
 */
import { limits } from '../contract/limits.ts';
import type { WatchedBalancer } from '../gateway/balance/balancer.ts';
import type { Standing, Turns } from '../gateway/limiter.ts';
import { createGatewayMetrics } from '../gateway/records/gateway-metrics.ts';
import { createLiveTally, type LiveSums, noSums } from '../gateway/records/live-tally.ts';
import { openJournal } from '../gateway/records/open-journal.ts';
import type { RequestRecord } from '../gateway/request-record.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { createMetrics, type Metrics } from '../lib/metrics.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import { type LoopDelay, startLoopWatch } from './loop-watch.ts';

/** A key at a model: in the last minute, and now. `model`: null where it told no name yet. */
export type RequestsNow = {
  key_id: string;
  workload_id: string | null;
  model: string | null;
  at_work: number;
  waiting: number;
  sums: LiveSums;
};

export type JournalNow = { waiting: number; oldest_ms: number; lost: number; unclean: number };

export type RequestRecords = {
  record(record: RequestRecord): void;
  /** From here on who works and waits is shown, too, and which replicas are left alone. */
  watch(turns: Pick<Turns, 'standing'>, balancer: Pick<WatchedBalancer, 'breakers'>): void;
  now(): RequestsNow[];
  window_ms(): number;
  journal(): JournalNow;
  /** As Prometheus reads them. */
  metrics(): string;
  stop(): Promise<void>;
};

export async function openRequestRecords(deps: {
  store: EinsoraStore;
  clock: Clock;
  log: Log;
}): Promise<RequestRecords> {
  const journal = await openJournal(deps);
  const loop = startLoopWatch(deps);
  const tally = createLiveTally(deps.clock);
  const metrics = createMetrics(limits.metric_series);
  const count = createGatewayMetrics(metrics);
  let standing: () => Standing[] = () => [];
  const records: RequestRecords = {
    record(record) {
      journal.add(record);
      tally.add(record);
      count(record);
    },
    watch(turns, balancer) {
      standing = () => turns.standing();
      readBreakers(metrics, balancer);
    },
    now: () => [
      ...tally.rows().map(({ key_id, workload_id, model, ...sums }) => ({
        ...{ key_id, workload_id, model, sums, at_work: 0, waiting: 0 },
      })),
      ...standing().map((one) => ({ ...one, model: null, sums: noSums() })),
    ],
    window_ms: () => Math.round(tally.window_ms()),
    journal: () => ({ ...journal.standing(), unclean: journal.unclean }),
    metrics: () => metrics.text(),
    async stop() {
      loop.stop();
      await journal.stop();
    },
  };
  readJournal(metrics, records);
  readQueue(metrics, () => standing());
  readProcess(metrics, loop.last);
  return records;
}

function readJournal(metrics: Metrics, { journal }: RequestRecords): void {
  const name = (what: string) => `einsora_gateway_journal_${what}`;
  metrics.read('gauge', name('waiting'), 'Records of requests that are not stored yet.', () => [
    { value: journal().waiting },
  ]);
  metrics.read('gauge', name('oldest_seconds'), 'How long the oldest of them waits.', () => [
    { value: journal().oldest_ms / 1000 },
  ]);
  metrics.read('counter', name('lost_total'), 'Records that were lost, ever.', () => [
    { value: journal().lost },
  ]);
  metrics.read('counter', name('unclean_total'), 'Ends without closing the journal, ever.', () => [
    { value: journal().unclean },
  ]);
}

function readQueue(metrics: Metrics, standing: () => Standing[]): void {
  const sum = (what: 'at_work' | 'waiting') => [
    { value: standing().reduce((total, one) => total + one[what], 0) },
  ];
  const at_work = 'Requests that an engine works on.';
  metrics.read('gauge', 'einsora_gateway_requests_at_work', at_work, () => sum('at_work'));
  const waiting = 'Requests that wait for their turn.';
  metrics.read('gauge', 'einsora_gateway_requests_waiting', waiting, () => sum('waiting'));
}

function readBreakers(metrics: Metrics, balancer: Pick<WatchedBalancer, 'breakers'>): void {
  const help = 'Replicas that were asked of late, by the state of their breakers.';
  metrics.read('gauge', 'einsora_gateway_replicas', help, () =>
    Object.entries(balancer.breakers()).map(([breaker, value]) => ({ labels: { breaker }, value })),
  );
}

function readProcess(metrics: Metrics, loopDelay: () => LoopDelay): void {
  const help = 'How late the event loop was in the last minute; quantile 1 is the latest.';
  metrics.read('gauge', 'einsora_event_loop_delay_seconds', help, () => {
    const { p99_ms, max_ms } = loopDelay();
    return [
      { labels: { quantile: '0.99' }, value: p99_ms / 1000 },
      { labels: { quantile: '1' }, value: max_ms / 1000 },
    ];
  });
  metrics.read('gauge', 'process_resident_memory_bytes', 'Memory of this process.', () => [
    { value: process.memoryUsage.rss() },
  ]);
  metrics.read('counter', 'process_cpu_seconds_total', 'CPU time of this process.', () => {
    const { user, system } = process.cpuUsage();
    return [{ value: (user + system) / 1e6 }];
  });
}
