/**
 * What the gateway did since the program began, for Prometheus.
 *
 * Invariants: models by the name they were asked for, and only where that led somewhere: what a
 * client makes up is no label; no key, user or tenant is one.
 */
import type { Metrics } from '../../lib/metrics.ts';
import type { RequestRecord } from '../request-record.ts';
import { nameOf } from './rows.ts';

const seconds = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
const rates = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

/** How many kinds of requests are remembered with what they count under. */
const kinds_remembered = 1000;

/** Counts a request that has ended. */
export function createGatewayMetrics(metrics: Metrics): (record: RequestRecord) => void {
  const families = { ...createCounters(metrics), ...createHistograms(metrics) };
  /** Most requests are of a few kinds: looking ten series up for each costs more than counting. */
  const kinds = new Map<string, Series>();
  return (record) => {
    const kind = kindOf(record);
    let series = kinds.get(kind);
    if (series === undefined) {
      if (kinds.size >= kinds_remembered) kinds.clear();
      series = seriesOf(families, record);
      kinds.set(kind, series);
    }
    count(series, record);
  };
}

/** A name that led somewhere has no line break, and only the last part may. */
function kindOf({ workload_id, model, api, outcome, placed_class, code }: RequestRecord): string {
  return `${workload_id === null ? '' : model}\n${api}\n${outcome}\n${placed_class}\n${code}`;
}

type Families = ReturnType<typeof createCounters> & ReturnType<typeof createHistograms>;
type Series = ReturnType<typeof seriesOf>;

function seriesOf(families: Families, record: RequestRecord) {
  const { requests, tokens, estimated, attempts, failovers } = families;
  const { duration, wait, first, rate } = families;
  const { api, outcome, code, placed_class } = record;
  const model = record.workload_id === null ? 'none' : nameOf(record.model);
  const place = [model, placed_class ?? 'none'];
  return {
    requests: requests.at([model, api, outcome, nameOf(code ?? ''), ...place.slice(1)]),
    prompt: tokens.at([model, 'prompt']),
    completion: tokens.at([model, 'completion']),
    cached: tokens.at([model, 'cached']),
    estimated: estimated.at([model]),
    attempts: attempts.at([model]),
    failovers: failovers.at([model]),
    duration: duration.at(place),
    wait: wait.at([model]),
    first: first.at(place),
    rate: rate.at(place),
  };
}

function count(series: Series, record: RequestRecord): void {
  const { use, attempts, first_token_ms, duration_ms, waited_ms } = record;
  series.requests(1);
  series.prompt(use.prompt_tokens);
  series.completion(use.completion_tokens);
  series.cached(use.cached_tokens);
  if (use.is_estimated) series.estimated(1);
  if (attempts > 0) series.attempts(attempts);
  if (attempts > 1) series.failovers(attempts - 1);
  series.duration(duration_ms / 1000);
  series.wait(waited_ms / 1000);
  if (first_token_ms === null) return;
  series.first(first_token_ms / 1000);
  const writing_s = (duration_ms - first_token_ms) / 1000;
  if (writing_s > 0 && use.completion_tokens > 1) {
    series.rate((use.completion_tokens - 1) / writing_s);
  }
}

function createCounters(metrics: Metrics) {
  const counter = (name: string, help: string, labels: string[]) =>
    metrics.counter(`einsora_gateway_${name}_total`, help, labels);
  return {
    requests: counter('requests', 'Requests that have ended.', [
      ...['model', 'api', 'outcome', 'code', 'class'],
    ]),
    tokens: counter('tokens', 'Tokens of prompts (those cached among them) and completions.', [
      ...['model', 'kind'],
    ]),
    estimated: counter('estimated', 'Requests whose tokens had to be estimated.', ['model']),
    attempts: counter('attempts', 'Engines that were asked.', ['model']),
    failovers: counter('failovers', 'Engines that were asked after another one failed.', ['model']),
  };
}

function createHistograms(metrics: Metrics) {
  const histogram = (name: string, help: string, labels: string[], bounds = seconds) =>
    metrics.histogram({ name: `einsora_gateway_${name}`, help, labels, bounds });
  const place = ['model', 'class'];
  return {
    duration: histogram('request_duration_seconds', 'From its coming to its end.', place),
    wait: histogram('wait_seconds', 'From its coming until an engine was asked.', ['model']),
    first: histogram('first_token_seconds', 'From its coming to its first content.', place),
    rate: histogram(
      ...(['tokens_per_second', 'Tokens of a completion a second, after its first.'] as const),
      ...([place, rates] as const),
    ),
  };
}
