/**
 * What an engine is asked, of what a client asked.
 *
 * Invariants: unknown fields go through; fields that steer an engine beyond this one question do
 * not; an engine is asked for a stream wherever that loses nothing; what a client sent is never
 * changed. Errors are values.
 */
import type { Refusal } from '../errors.ts';
import { api_paths, type GatewayApi } from '../request-record.ts';
import { askForUse, wantedUse } from '../use/ask-for-use.ts';
import { choicesOf } from '../use/estimate.ts';
import { createUseMeter, type UseMeter } from '../use/meter.ts';
import { createUseTotal } from '../use/total.ts';
import type { Fields } from '../whole/fields.ts';
import { isStreamed } from '../whole/whole.ts';
import type { EngineAdapter } from './adapter.ts';
import { createResponseFill, type FillEvent } from './response-events.ts';

/**
 * Fields by which a client could reach into an engine: another client's slot, the adapters and
 * second models that it loads, its place in the queue, the id of another's request, transfers
 * between engines, code and tensors that it would load.
 */
const control_fields = [
  ...['id_slot', 'slot_id', 'lora', 'adapters', 'adapter_path', 'draft_model', 'num_draft_tokens'],
  ...['priority', 'request_id', 'kv_transfer_params', 'ec_transfer_params', 'logits_processors'],
  ...['prompt_embeds', 'chat_template', 'role_mapping'],
];

/** Fields of engines that keep the beginnings of prompts for whoever asks next. */
const cache_fields = ['cache_prompt', 'cache_salt', 'n_cache_reuse'];

/** What would have to be kept between two questions, which nothing here is. */
const kept_fields = ['previous_response_id', 'conversation', 'background'];

export type EngineAsk = {
  path: string;
  /** JSON. */
  body: string;
  /** Whether it is asked for a stream; otherwise its answer comes in one piece. */
  is_stream: boolean;
  /** Counts this attempt. */
  meter: UseMeter;
  /** Completes the events of this attempt; null: they are whole. */
  fill: FillEvent | null;
};

export type ToAsk = {
  api: GatewayApi;
  fields: Fields;
  /** The endpoint's name. */
  name: string;
  /** Estimated. */
  prompt_tokens: number;
  /** Several tenants prompt the engine; the salt is of the one that asks. */
  apart: { salt: string } | null;
};

export type AskRead = { ok: true; value: EngineAsk } | { ok: false; refusal: Refusal };

export function askOf(engine: EngineAdapter, to_ask: ToAsk): AskRead {
  const { api, fields } = to_ask;
  if (!engine.apis.includes(api)) return { ok: false, refusal: apiLacking(engine, to_ask) };
  const unable = engine.problemWith(fields);
  if (unable !== null) return { ok: false, refusal: refusalFor(engine, to_ask, unable) };
  const kept = kept_fields.find((field) => api === 'responses' && Boolean(fields[field]));
  if (kept !== undefined) return { ok: false, refusal: nothingKept(kept) };
  const is_stream = isStreamed(api) && mayStream(engine, fields);
  const { fields: asked, was_injected } =
    isStreamed(api) && is_stream
      ? askForUse(api, fields, engine.use_on_demand)
      : { fields: inOnePiece(fields), was_injected: false };
  const body = bodyOf({ ...allowed(asked, to_ask), ...ownFields(engine, to_ask) });
  if (body === null) return { ok: false, refusal: nestedTooDeep };
  const { prompt_tokens } = to_ask;
  const total = createUseTotal(engine.use_of, choicesOf(fields));
  const meter = createUseMeter({ total, prompt_tokens, wanted: wantedUse(fields), was_injected });
  const fill = api === 'responses' && engine.lacks_places ? createResponseFill() : null;
  return { ok: true, value: { path: api_paths[api], body, is_stream, meter, fill } };
}

/** Whoever asks for a stream gets what the engine makes of that. */
function mayStream(engine: EngineAdapter, fields: Fields): boolean {
  return fields.stream === true || !engine.unstreamed_fields.some((name) => Boolean(fields[name]));
}

/** Options of a stream beside none are an error to some engines. */
function inOnePiece({ stream: _, stream_options: __, ...rest }: Fields): Fields {
  return rest;
}

function allowed(fields: Fields, { apart }: ToAsk): Fields {
  const taken = apart === null ? control_fields : [...control_fields, ...cache_fields];
  const found = taken.filter((name) => name in fields);
  if (found.length === 0) return fields;
  const rest = { ...fields };
  for (const name of found) delete rest[name];
  return rest;
}

function ownFields(engine: EngineAdapter, { api, apart, name }: ToAsk): Fields {
  return {
    model: engine.model ?? name,
    ...(apart === null ? {} : engine.apart(apart.salt)),
    ...(api === 'responses' ? { store: false } : {}),
  };
}

/** Null: reading takes any depth; writing recurses, and an engine's own parser would too. */
function bodyOf(fields: Fields): string | null {
  try {
    return JSON.stringify(fields);
  } catch {
    return null;
  }
}

function apiLacking(engine: EngineAdapter, { api, name }: ToAsk): Refusal {
  const has = engine.apis.join(', ');
  const message = `The engine of ${name} (${engine.name}) has no ${api}; it has ${has}.`;
  return { status: 400, message, code: 'not_supported', param: 'model' };
}

function refusalFor(
  engine: EngineAdapter,
  { name }: ToAsk,
  { param, problem }: { param: string; problem: string },
): Refusal {
  const message = `The engine of ${name} (${engine.name}) ${problem}: see \`${param}\`.`;
  return { status: 400, message, code: 'not_supported', param };
}

function nothingKept(param: string): Refusal {
  const message = `\`${param}\` is not supported: no response is kept. Send the whole input.`;
  return { status: 400, message, code: 'not_supported', param };
}

const nestedTooDeep = {
  status: 400,
  message: 'The request is not valid: the body is nested too deeply.',
  code: 'bad_request',
} satisfies Refusal;
