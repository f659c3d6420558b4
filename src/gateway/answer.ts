/**
 * Gets an answer of an endpoint to the client, with every way in which it can end.
 *
 * Invariants: engines are asked for a stream wherever they can stream, whatever the client asked
 * for; a client that asked for none gets an exact status and a whole document (ADR-0064).
 */
import type { Clock } from '../lib/clock.ts';
import { digest } from '../lib/secret.ts';
import { tryReplica } from './attempt.ts';
import { type Attempted, tryReplicas } from './attempts.ts';
import { affinityOf } from './balance/affinity.ts';
import type { Balancer, Outing } from './balance/balancer.ts';
import { hasSeveralChoices } from './choice-ends.ts';
import type { Connections } from './connections.ts';
import type { Delivery } from './delivery.ts';
import type { Endpoint, FoundEndpoint, Replica, Soon } from './endpoint.ts';
import { askOf } from './engines/engine-question.ts';
import { engineNamed } from './engines/engines.ts';
import { blamesClient } from './engines/refusal.ts';
import type { FillEvent } from './engines/response-events.ts';
import { refusals } from './errors.ts';
import { type Exchange, refuse, sendWhole } from './exchange.ts';
import type { GatewayKey } from './key.ts';
import { type Ending, failedBy, type Sink } from './pump.ts';
import type { Question } from './question.ts';
import type { GatewayApi } from './request-record.ts';
import { createStreamSink, type Listener } from './stream-sink.ts';
import { served_names, servedBy } from './target.ts';
import type { UseMeter } from './use/meter.ts';
import type { Fields } from './whole/fields.ts';
import { createWhole, isStreamed } from './whole/whole.ts';
import { createDocumentSink, createWholeSink } from './whole-sink.ts';

export type Answering = {
  exchange: Exchange;
  key: GatewayKey;
  question: Question;
  api: GatewayApi;
  endpoint: Endpoint;
  /** Of a client that asked for a stream. */
  delivery: Delivery | null;
  findAgain(): Soon<FoundEndpoint>;
};

export type AnsweringDeps = {
  connections: Connections;
  balancer: Balancer;
  clock: Pick<Clock, 'after' | 'monotonic'>;
};

/** Asks the endpoint's replicas. What comes of it still has to be told (`tell`). */
export function getAnswer(deps: AnsweringDeps, answering: Answering): Promise<Ending> {
  const { exchange, question, key, delivery } = answering;
  return tryReplicas({
    endpoint: answering.endpoint,
    balancer: deps.balancer,
    affinity: () => affinityOf(key.tenant_id, question.fields),
    attempt: (endpoint, replica, outing) => attempt(deps, answering, { endpoint, replica, outing }),
    async again() {
      if (delivery?.isCommitted() || exchange.stop.reason() !== null) return null;
      const found = await answering.findAgain();
      return found.ok ? found.endpoint : null;
    },
  });
}

/** The last of it, for the client. */
export function tell(exchange: Exchange, delivery: Delivery | null, ending: Ending): void {
  if (ending.is === 'whole') {
    if (delivery === null) sendWhole(exchange, ending.last);
    else delivery.end(ending.last);
    return;
  }
  // Where it was stopped, the reason of that is told in place of any other.
  const refusal = ending.is === 'failed' ? ending.refusal : refusals.internal;
  // Who failed is for the log: nobody answered.
  if (!blamesClient(refusal)) {
    for (const name of served_names) delete exchange.headers[name];
  }
  if (delivery === null) refuse(exchange, refusal);
  else delivery.fail(refusal);
}

type Try = { endpoint: Endpoint; replica: Replica; outing: Outing };

async function attempt(
  { connections, clock }: AnsweringDeps,
  answering: Answering,
  { endpoint, replica, outing }: Try,
): Promise<Attempted> {
  const { exchange, question, key, api, delivery } = answering;
  const { stop, deadlines, response, report, headers } = exchange;
  report.endpoint = endpoint;
  report.replica = replica;
  report.attempts += 1;
  report.asked_at ??= clock.monotonic();
  Object.assign(headers, servedBy(endpoint.name, replica));
  headers['X-Einsora-Attempts'] = String(report.attempts);
  const asked = askOf(engineNamed(endpoint.engine), {
    ...{ api, fields: question.fields, name: endpoint.name },
    apart: endpoint.is_apart ? { salt: digest(key.tenant_id) } : null,
  });
  if (!asked.ok) return { ending: failedBy(asked.refusal), ...untried };
  const { path, body, is_stream } = asked.value;
  const meter = asked.value.createMeter();
  let had_content = false;
  const onContent = () => {
    had_content = true;
    report.first_token_at = clock.monotonic();
  };
  const fill = asked.value.createFill();
  const reads_all = fill !== null || hasSeveralChoices(question.fields);
  const listener = { ...listenerOf(meter, fill, outing, onContent), reads_all };
  const { ending, is_unreachable } = await tryReplica({
    ...{ stop, deadlines, response, clock },
    connections: connections.of(replica.run, replica.machine_id),
    question: { path, body, stream: is_stream },
    sinkOf: (streams) => sinkOf(api, streams, delivery, listener),
  });
  if (ending.is !== 'failed' || had_content) report.use = meter.use(ending.is === 'whole');
  return { ending, is_unreachable, had_content };
}

/** The run gets on with each event that says something; a comment says nothing. */
function listenerOf(
  meter: UseMeter,
  fill: FillEvent | null,
  outing: Outing,
  onContent: () => void,
): Omit<Listener, 'reads_all'> {
  let had_content = false;
  return {
    pieces(count) {
      outing.progress();
      meter.pieces(count);
    },
    said(chunk, has_content) {
      outing.progress();
      if (has_content) meter.pieces(1);
      if (has_content && !had_content) onContent();
      had_content ||= has_content;
      const told = meter.see(fill === null ? chunk : fill(chunk));
      if (told === chunk) return 'as it is';
      return told === null ? null : eventOf(told);
    },
    usage: meter.usage,
  };
}

/** Events of the responses API say of which kind they are twice. */
function eventOf(chunk: Fields): Buffer {
  const event = typeof chunk.type === 'string' ? `event: ${chunk.type}\n` : '';
  return Buffer.from(`${event}data: ${JSON.stringify(chunk)}\n\n`);
}

const untried = { is_unreachable: false, had_content: false };

/** Null: an answer of that form is none. */
function sinkOf(
  api: GatewayApi,
  is_stream: boolean,
  delivery: Delivery | null,
  listener: Listener,
): Sink | null {
  if (!is_stream) return delivery === null ? createDocumentSink(listener) : null;
  if (!isStreamed(api)) return null;
  if (delivery === null) return createWholeSink(api, createWhole(api), listener);
  return createStreamSink(api, delivery, listener);
}
