/**
 * What a model's name leads to for a key, before one of its replicas is chosen.
 */
import type { Details } from '../core/reasons.ts';
import type { RequestLimits } from '../core/request-limits.ts';
import type { RunKey } from '../core/run.ts';
import type { TargetProblem } from './target.ts';

/** One replica that answers. */
export type Replica = {
  run: RunKey;
  machine_id: string;
  /** Null where the key's tenant may see the class but not the machine. */
  machine_name: string | null;
  placed_class: string;
  region: string;
  /** What `X-Einsora-Fallback` says of it. */
  fallback: string;
  /** Requests that its engine works on at a time; null where that is not known. */
  slots: number | null;
};

export type Endpoint = {
  workload_id: string;
  /** Whose endpoint it is. */
  tenant_id: string;
  /** Its name, under which its engine knows the model too. */
  name: string;
  /** How its engine is spoken to: the adapter's name. */
  engine: string;
  /** Several tenants prompt it: none may have a cached beginning of another's (ADR-0058). */
  is_apart: boolean;
  /** Over all who ask it. */
  limits: RequestLimits;
  replicas: readonly Replica[];
};

/** At once where it is remembered. */
export type Soon<Value> = Value | Promise<Value>;

export type FoundEndpoint =
  | { ok: true; endpoint: Endpoint }
  | { ok: false; code: TargetProblem; details: Details };
