/**
 * Gets an answer of an endpoint to the client, with every way in which it can end.
 *
 * Invariants: engines are asked for a stream wherever they can stream, whatever the client asked
 * for; a client that asked for none gets an exact status and a whole document (ADR-0064).
 */
import type { Clock } from '../lib/clock.ts';
import { digest } from '../lib/secret.ts';
import { type Asked, ask } from './ask.ts';
import { readAnswer } from './attempt.ts';
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
import { type Refusal, refusals } from './errors.ts';
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
  /** Estimated. */
  prompt_tokens: number;
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

async function attempt(deps: AnsweringDeps, answering: Answering, one: Try): Promise<Attempted> {
  const { exchange, api, delivery } = answering;
  const { stop, deadlines, response, report } = exchange;
  const begun = await begin(deps, answering, one);
  if ('refusal' in begun) return { ending: failedBy(begun.refusal), ...untried };
  const { asked, listener } = begun;
  const { ending, is_unreachable } = await readAnswer(asked, {
    ...{ stop, deadlines, response, clock: deps.clock },
    sinkOf: (streams) => sinkOf(api, streams, delivery, listener),
  });
  const { had_content } = listener;
  if (ending.is !== 'failed' || had_content) {
    report.use = listener.meter.use(ending.is === 'whole');
  }
  return { ending, is_unreachable, had_content };
}

type Begun = { refusal: Refusal } | { asked: Asked; listener: Heard };

/** Apart from the reading, which goes on for long and must not hold what was sent. */
async function begin(
  { connections, clock }: AnsweringDeps,
  answering: Answering,
  { endpoint, replica, outing }: Try,
): Promise<Begun> {
  const { exchange, question, key, api, delivery, prompt_tokens } = answering;
  const { report, headers } = exchange;
  report.endpoint = endpoint;
  report.replica = replica;
  report.attempts += 1;
  report.asked_at ??= clock.monotonic();
  Object.assign(headers, servedBy(endpoint.name, replica));
  headers['X-Einsora-Attempts'] = String(report.attempts);
  const read = askOf(engineNamed(endpoint.engine), {
    ...{ api, fields: question.fields, name: endpoint.name, prompt_tokens },
    apart: endpoint.is_apart ? { salt: digest(key.tenant_id) } : null,
  });
  if (!read.ok) return { refusal: read.refusal };
  const { path, body, is_stream, meter, fill } = read.value;
  const reads_all = fill !== null || hasSeveralChoices(question.fields);
  const onContent = () => {
    report.first_token_at = clock.monotonic();
    // Of a stream that has begun no other is asked, and it may go on for an hour.
    if (delivery !== null) question.fields = {};
  };
  const listener = new Heard({ meter, fill, outing, reads_all, onContent });
  const to_ask = { path, body, stream: is_stream };
  const asked = await ask(connections.of(replica.run, replica.machine_id), to_ask, exchange);
  return { asked, listener };
}

type Hearing = {
  meter: UseMeter;
  fill: FillEvent | null;
  outing: Outing;
  reads_all: boolean;
  /** The first. */
  onContent(): void;
};

/** The run gets on with each event that says something; a comment says nothing. */
class Heard implements Listener {
  readonly meter: UseMeter;
  readonly reads_all: boolean;
  readonly #fill: FillEvent | null;
  readonly #outing: Outing;
  readonly #onContent: () => void;
  had_content = false;

  constructor({ meter, fill, outing, reads_all, onContent }: Hearing) {
    this.meter = meter;
    this.reads_all = reads_all;
    this.#fill = fill;
    this.#outing = outing;
    this.#onContent = onContent;
  }

  pieces(count: number): void {
    this.#outing.progress();
    this.meter.pieces(count);
  }

  said(chunk: Fields, has_content: boolean): 'as it is' | Buffer | null {
    this.#outing.progress();
    if (has_content) this.meter.pieces(1);
    if (has_content && !this.had_content) {
      this.had_content = true;
      this.#onContent();
    }
    const told = this.meter.see(this.#fill === null ? chunk : this.#fill(chunk));
    if (told === chunk) return 'as it is';
    return told === null ? null : eventOf(told);
  }

  usage(): Fields | null {
    return this.meter.usage();
  }
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
