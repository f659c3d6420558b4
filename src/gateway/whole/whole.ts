/**
 * The answer that a client gets who asked for no stream, built from the stream that the engine was
 * asked for: only a stream can be cancelled everywhere, and only of a stream is known how far it
 * came (ADR-0066).
 *
 * Invariants: nothing that the engine said is lost; what is no chunk is passed over; an answer
 * whose engine never said that it ended is not whole.
 */
import type { GatewayApi } from '../request-record.ts';
import { createChoicesWhole } from './choices.ts';
import type { Fields } from './fields.ts';
import { createResponseWhole } from './response.ts';

export type Whole = {
  /** Takes the parsed data of an event. */
  see(chunk: unknown): void;
  /** The engine said of each choice why it ended, or of the response that it is over. */
  isWhole(): boolean;
  /** The answer, as far as it came. `usage`: of all of it, where the engine's last says less. */
  result(usage?: Fields | null): Fields;
};

/** The APIs whose engines are asked for a stream. */
export const streamed_apis = ['chat', 'completions', 'responses'] as const;
export type StreamedApi = (typeof streamed_apis)[number];

export function isStreamed(api: GatewayApi): api is StreamedApi {
  return (streamed_apis as readonly string[]).includes(api);
}

export function createWhole(api: StreamedApi): Whole {
  switch (api) {
    case 'chat':
      return createChoicesWhole({ object: 'chat.completion', has_message: true });
    case 'completions':
      return createChoicesWhole({ object: 'text_completion', has_message: false });
    case 'responses':
      return createResponseWhole();
  }
}
