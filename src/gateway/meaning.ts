/**
 * What an event of an engine's stream means for the answer that it belongs to.
 *
 * Invariants: an error, and an end that is none, are never content; what says why an answer ended
 * is; everything that a client could show counts as content, and what merely announces it does not:
 * until content came another replica may answer (ADR-0064).
 */
import { refusalOfEvent } from './engines/refusal.ts';
import { type Refusal, refusals } from './errors.ts';
import type { Frame } from './frame.ts';
import type { GatewayApi } from './request-record.ts';
import { type Fields, isFields } from './whole/fields.ts';

export type Meaning =
  /** A comment, a role, an announcement. */
  | { is: 'nothing' }
  | { is: 'content' }
  /** It says why the answer ended. */
  | { is: 'finish' }
  /** Nothing comes after it. */
  | { is: 'done' }
  | { is: 'failed'; refusal: Refusal };

/** What an event says; null: it is no JSON object. */
export type Said = { meaning: Meaning; chunk: Fields | null };

const nothing: Said = { meaning: { is: 'nothing' }, chunk: null };
const done: Said = { meaning: { is: 'done' }, chunk: null };

export function readEvent(api: GatewayApi, { event, data }: Frame): Said {
  if (data === null || data === '' || data === nothing_said) return nothing;
  if (data.startsWith('[DONE]')) return done;
  const chunk = parse(data);
  if (chunk === null) return failedBy(refusals.engineGarbled);
  if (chunk.error || event === 'error' || chunk.type === 'error') {
    return failedBy(refusalOfEvent(chunk.error || chunk));
  }
  return { meaning: api === 'responses' ? ofResponse(chunk) : ofChoices(chunk), chunk };
}

/** llama-server begins the stream of several prompts with it. */
export const nothing_said = 'null';

function failedBy(refusal: Refusal): Said {
  return { meaning: { is: 'failed', refusal }, chunk: null };
}

/** An engine that gave up says so in the place of a reason (vllm#57082). */
const given_up = new Set<unknown>(['abort', 'error']);

function ofChoices({ choices }: Fields): Meaning {
  if (!Array.isArray(choices)) return { is: 'nothing' };
  let is: 'nothing' | 'content' | 'finish' = 'nothing';
  for (const choice of choices) {
    if (!isFields(choice)) continue;
    if (given_up.has(choice.finish_reason))
      return { is: 'failed', refusal: refusals.engineAborted };
    if (choice.finish_reason) is = 'finish';
    else if (is === 'nothing' && hasContent(choice)) is = 'content';
  }
  return { is };
}

function hasContent({ text, delta }: Fields): boolean {
  if (isSaid(text)) return true;
  if (!isFields(delta)) return false;
  const { content, reasoning, reasoning_content, refusal, audio, function_call } = delta;
  if ([content, reasoning, reasoning_content, refusal, audio].some(isSaid)) return true;
  return (
    isCall(function_call) || (Array.isArray(delta.tool_calls) && delta.tool_calls.some(isTool))
  );
}

/** A text or a list with something in it, or an object. */
function isSaid(value: unknown): boolean {
  return typeof value === 'string' || Array.isArray(value) ? value.length > 0 : isFields(value);
}

function isTool(call: unknown): boolean {
  return isFields(call) && isCall(call.function);
}

function isCall(called: unknown): boolean {
  return isFields(called) && (isSaid(called.name) || isSaid(called.arguments));
}

function ofResponse({ type, item, response }: Fields): Meaning {
  if (typeof type !== 'string') return { is: 'nothing' };
  if (type === 'response.completed' || type === 'response.incomplete') return { is: 'finish' };
  if (type === 'response.failed') {
    const error = isFields(response) ? response.error : null;
    return { is: 'failed', refusal: refusalOfEvent(error) };
  }
  const is_call = type === 'response.output_item.added' && isFields(item) && isCallItem(item.type);
  return { is: is_call || type.endsWith('.delta') ? 'content' : 'nothing' };
}

function isCallItem(type: unknown): boolean {
  return typeof type === 'string' && type.endsWith('_call');
}

function parse(data: string): Fields | null {
  try {
    const parsed: unknown = JSON.parse(data);
    return isFields(parsed) ? parsed : null;
  } catch {
    return null;
  }
}
