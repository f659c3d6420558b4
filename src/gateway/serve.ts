/**
 * The way of one request through the gateway: key, route, body, endpoint, limits, turn, engines,
 * answer.
 *
 * Invariants: what a request holds (its lease, its turn, the use of its endpoint) is let go once,
 * however it ends, and before its client can see the end: the client's next request finds it free.
 */
import { limits } from '../contract/limits.ts';
import type { Clock } from '../lib/clock.ts';
import { type AnsweringDeps, getAnswer, tell } from './answer.ts';
import { openDelivery } from './delivery.ts';
import type { Endpoint, FoundEndpoint, Soon } from './endpoint.ts';
import { refusals } from './errors.ts';
import { type Exchange, refuse, sendWhole } from './exchange.ts';
import { type GatewayKey, isUsable, keyDigestOf } from './key.ts';
import type { Limiter, Turns } from './limiter.ts';
import type { Look } from './look.ts';
import { type Ending, failedBy } from './pump.ts';
import { type Question, readQuestion } from './question.ts';
import type { GatewayApi } from './request-record.ts';
import { apiOf, judgeRoute, modelIn } from './route.ts';
import type { Waiting } from './stop.ts';
import { refusalOfTarget } from './target.ts';
import { estimatePrompt, mostTokens } from './use/estimate.ts';
import { isStreamed } from './whole/whole.ts';

export type ServeDeps = AnsweringDeps & {
  findKey(key_digest: string): Soon<GatewayKey | null>;
  findEndpoint(key: GatewayKey, model: string, stop: Waiting): Soon<FoundEndpoint>;
  listModels(key: GatewayKey): Promise<{ id: string; created_at: number }[]>;
  limiter: Limiter;
  turns: Turns;
  using?(workload_id: string): () => void;
  look: Look;
  clock: Pick<Clock, 'now' | 'monotonic' | 'after'>;
};

type Asking = { exchange: Exchange; key: GatewayKey; key_digest: string; api: GatewayApi };

/** `open_count`: requests that are open, this one among them. */
export async function serve(
  deps: ServeDeps,
  exchange: Exchange,
  open_count: number,
): Promise<void> {
  const { request, report, stop, deadlines } = exchange;
  if (open_count > limits.gateway_requests_at_once) return refuse(exchange, refusals.full);
  deadlines.set('total', limits.gateway_total_ms, () => stop.now('too_long'));
  const path = (request.url ?? '').split('?', 1)[0] ?? '';
  const wrong = judgeRoute(request.method ?? '', path);
  if (wrong) return refuse(exchange, wrong);
  const key_digest = keyDigestOf(request);
  const key = key_digest === null ? null : await deps.findKey(key_digest);
  if (key_digest === null || !isUsable(key, deps.clock.now())) {
    return refuse(exchange, refusals.invalidKey);
  }
  report.key = key;
  const api = apiOf(path);
  if (api === null) return sendModels(exchange, await deps.listModels(key), modelIn(path));
  report.api = api;
  await ask(deps, { exchange, key, key_digest, api });
}

async function ask(deps: ServeDeps, asking: Asking): Promise<void> {
  const { exchange, key, key_digest } = asking;
  const { request, report, stop, deadlines } = exchange;
  const read = await readQuestion(request, stop, deadlines);
  if (!read.ok) return refuse(exchange, read.refusal);
  const question = read.value;
  report.model = question.model;
  report.is_stream = question.stream;
  const found = await deps.findEndpoint(key, question.model, stop);
  if (!found.ok) {
    return refuse(exchange, refusalOfTarget(found.code, found.details, question.model));
  }
  let { endpoint } = found;
  report.endpoint = endpoint;
  const prompt_tokens = estimatePrompt(question.fields);
  // Embeddings and ranks have no tokens of their own.
  const max_tokens = isStreamed(asking.api) ? mostTokens(question.fields) : 0;
  const admitted = deps.limiter.admit({ key, endpoint, prompt_tokens, max_tokens });
  if (!admitted.ok) return refuse(exchange, admitted.refusal);
  Object.assign(exchange.headers, admitted.headers);
  const { lease } = admitted;
  const unused = deps.using?.(endpoint.workload_id);
  const see = (newer: Endpoint) => {
    endpoint = newer;
  };
  const unwatched = deps.look.at({ key_digest, model: question.model, stop, see });
  // While a turn is waited for, replicas come and go.
  const endpointNow = () => endpoint;
  await work(deps, asking, { question, prompt_tokens }, endpointNow, () => {
    unwatched();
    unused?.();
    lease.settle(report.use);
    lease.end();
  });
}

async function work(
  deps: ServeDeps,
  { exchange, key, api }: Asking,
  { question, prompt_tokens }: { question: Question; prompt_tokens: number },
  endpointNow: () => Endpoint,
  release: () => void,
): Promise<void> {
  const delivery = question.stream && isStreamed(api) ? openDelivery(exchange) : null;
  const { stop } = exchange;
  let leave: (() => void) | null = null;
  let ending: Ending;
  try {
    const turn = await deps.turns.enter({
      workload_id: endpointNow().workload_id,
      key_id: key.id,
      capacity: () => deps.balancer.capacity(endpointNow().replicas),
      stop,
    });
    if (turn.ok) {
      leave = turn.leave;
      const findAgain = () => deps.findEndpoint(key, question.model, stop);
      const endpoint = endpointNow();
      const asked = { exchange, key, question, prompt_tokens, api, endpoint };
      ending = await getAnswer(deps, { ...asked, delivery, findAgain });
    } else ending = failedBy(turn.refusal);
  } finally {
    leave?.();
    release();
  }
  tell(exchange, delivery, ending);
}

type Listed = { id: string; created_at: number };

/** `only`: the one that is asked about. */
function sendModels(exchange: Exchange, models: readonly Listed[], only: string | null): void {
  const data = models.map(({ id, created_at }) => ({
    id,
    object: 'model',
    created: Math.floor(created_at / 1000),
    owned_by: 'einsora',
  }));
  const one = data.find(({ id }) => id === only);
  if (only !== null && one === undefined) {
    refuse(exchange, refusalOfTarget('not_found', {}, only));
    return;
  }
  sendWhole(exchange, JSON.stringify(one ?? { object: 'list', data }));
}
