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

/** Counts a request that has ended. */
export function createGatewayMetrics(metrics: Metrics): (record: RequestRecord) => void {
  const counters = createCounters(metrics);
  const histograms = createHistograms(metrics);
  return (record) => {
    const { use, api, outcome, attempts, first_token_ms, duration_ms } = record;
    const model = record.workload_id === null ? 'none' : nameOf(record.model);
    const place = [model, record.placed_class ?? 'none'];
    counters.requests.add([model, api, outcome, nameOf(record.code ?? ''), ...place.slice(1)]);
    counters.tokens.add([model, 'prompt'], use.prompt_tokens);
    counters.tokens.add([model, 'completion'], use.completion_tokens);
    counters.tokens.add([model, 'cached'], use.cached_tokens);
    if (use.is_estimated) counters.estimated.add([model]);
    if (attempts > 0) counters.attempts.add([model], attempts);
    if (attempts > 1) counters.failovers.add([model], attempts - 1);
    histograms.duration.observe(place, duration_ms / 1000);
    histograms.wait.observe([model], record.waited_ms / 1000);
    if (first_token_ms === null) return;
    histograms.first.observe(place, first_token_ms / 1000);
    const writing_s = (duration_ms - first_token_ms) / 1000;
    if (writing_s > 0 && use.completion_tokens > 1) {
      histograms.rate.observe(place, (use.completion_tokens - 1) / writing_s);
    }
  };
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
