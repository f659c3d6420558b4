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

/** The fields of a question that an engine is asked to stream. Changes nothing that it is given. */
export function askForUse(api: StreamedApi, fields: Fields, engine: UseOnDemand): Fields {
  const { stream_options, ...rest } = fields;
  const options = fields.stream === true && isFields(stream_options) ? stream_options : {};
  const wanted = wantedUse(fields);
  const asked: Fields = { ...rest, stream: true };
  if (api === 'responses') {
    // Its last event tells, and knows no such option.
    return Object.keys(options).length === 0 ? asked : { ...asked, stream_options: options };
  }
  if (engine.is_told_anyway && fields.stream === true && !wanted.at_end) {
    return {
      ...asked,
      ...(fields.stream_options === undefined ? {} : { stream_options: options }),
    };
  }
  const more = engine.continuous ? { continuous_usage_stats: true } : {};
  return { ...asked, stream_options: { ...options, include_usage: true, ...more } };
}
