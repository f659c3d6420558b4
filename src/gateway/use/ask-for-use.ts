/**
 * Engines are asked to tell what an answer used, whether its client wants to know or not.
 *
 * Invariants: what a client asked for is asked for; a client never gets what it did not ask for
 * (`meter.ts` takes it out again), since there are clients that break on a chunk without choices.
 */
import { type Fields, isFields } from '../whole/fields.ts';
import type { StreamedApi } from '../whole/whole.ts';

/** How an engine can be made to tell. */
export type UseOnDemand = {
  /** It tells at the end of each stream anyway, by `timings`. */
  is_told_anyway: boolean;
  /** It tells with each chunk what came so far, where it is asked to. */
  continuous: boolean;
};

/** What a client wants to get of the use in a stream. */
export type WantedUse = {
  at_end: boolean;
  continuous: boolean;
};

export function wantedUse({ stream, stream_options }: Fields): WantedUse {
  const options = stream === true && isFields(stream_options) ? stream_options : {};
  const at_end = options.include_usage === true;
  return { at_end, continuous: at_end && options.continuous_usage_stats === true };
}

export type AskedForUse = {
  fields: Fields;
  /** It is asked to tell more than its client wants to know. */
  was_injected: boolean;
};

/** A question that an engine is asked to stream. Changes nothing that it is given. */
export function askForUse(api: StreamedApi, given: Fields, engine: UseOnDemand): AskedForUse {
  const { stream_options, ...rest } = given;
  const own = given.stream === true && isFields(stream_options) ? stream_options : null;
  const wanted = wantedUse(given);
  const fields: Fields = own === null ? rest : { ...rest, stream_options: own };
  fields.stream = true;
  // The last event of a response tells, and there is no such option.
  if (api === 'responses') return { fields, was_injected: false };
  const is_told = engine.is_told_anyway && given.stream === true && !wanted.at_end;
  if (is_told) return { fields, was_injected: false };
  const more = engine.continuous ? { continuous_usage_stats: true } : {};
  fields.stream_options = { ...own, include_usage: true, ...more };
  const is_more = engine.continuous && !wanted.continuous;
  return { fields, was_injected: is_more || !wanted.at_end };
}
