/**
 * How an engine is spoken to: what differs between engines, as data.
 *
 * Invariants: no engine is asked for what it lacks; what an engine cannot tell in a stream is asked
 * for in one piece. What is the same for all of them stands in `engine-question.ts` and
 * `refusal.ts`.
 */
import type { GatewayApi } from '../request-record.ts';
import type { UseOnDemand } from '../use/ask-for-use.ts';
import type { UseOf } from '../use/total.ts';
import type { Fields } from '../whole/fields.ts';

export type EngineAdapter = {
  name: string;
  /** What it answers, each at OpenAI's path. */
  apis: readonly GatewayApi[];
  /** The model's name where the engine would take another for one to load; null: the endpoint's. */
  model: string | null;
  /** What the usage at the end of its streams is of. */
  use_of: UseOf;
  use_on_demand: UseOnDemand;
  /** Fields whose answer it gives in one piece only. */
  unstreamed_fields: readonly string[];
  /** Its events of the responses API lack what clients need, and it can be known. */
  lacks_places: boolean;
  /** What it cannot do, or would not survive; null where it takes the question. */
  problemWith(fields: Fields): { param: string; problem: string } | null;
  /**
   * What is set where several tenants prompt it, so that none learns by its speed what another
   * asked (ADR-0058). `salt`: the same for each question of a tenant, and of no other.
   */
  apart(salt: string): Fields;
};
