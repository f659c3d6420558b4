/**
 * Events of the responses API as clients expect them, of an engine that leaves out what can be
 * known: places, running numbers, an output that is still empty.
 *
 * Invariants: adds only what is not there, and changes nothing that is; one for each attempt.
 * Without these fields OpenAI's own packages throw in the middle of an answer.
 */
import { type Fields, isFields } from '../whole/fields.ts';

export type FillEvent = (event: Fields) => Fields;

export function createResponseFill(): FillEvent {
  const items: string[] = [];
  const parts = new Map<string, number>();
  let sequence_number = -1;

  function placeOf(item_id: unknown): number {
    const at = items.indexOf(String(item_id));
    return at < 0 ? Math.max(0, items.length - 1) : at;
  }

  function lacking(type: string, event: Fields): Fields {
    if (isFields(event.response)) return { response: { ...unsaid, ...event.response } };
    if (isFields(event.item)) {
      if (type === 'response.output_item.added') items.push(String(event.item.id));
      return { output_index: placeOf(event.item.id) };
    }
    const { item_id, part } = event;
    if (item_id === undefined) return {};
    const place = { output_index: placeOf(item_id) };
    const id = String(item_id);
    if (type === 'response.content_part.added') parts.set(id, (parts.get(id) ?? -1) + 1);
    const content_index = parts.get(id);
    if (content_index === undefined) return place;
    const said =
      isFields(part) && part.type === 'output_text' ? { part: { ...empty, ...part } } : {};
    const logprobs = type.startsWith('response.output_text.') ? { logprobs: [] } : {};
    return { ...place, content_index, ...logprobs, ...said };
  }

  return (event) => {
    const { type } = event;
    if (typeof type !== 'string' || !type.startsWith('response.')) return event;
    sequence_number += 1;
    const { response, part, ...more } = lacking(type, event);
    return {
      // Twice: what is there stays as it is, and where it is.
      ...{ ...event, sequence_number, ...more, ...event },
      ...(response === undefined ? {} : { response }),
      ...(part === undefined ? {} : { part }),
    };
  };
}

/** Of a response that has said nothing yet. */
const unsaid = { output: [], usage: null, error: null, incomplete_details: null };

/** Of a text that has none yet. */
const empty = { annotations: [], logprobs: [] };
