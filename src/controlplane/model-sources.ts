/**
 * What a model of a hub or a server is, asked by the control plane before anything is recorded: so
 * that a launch is refused with the reason at once, its size is known, and its revision is pinned.
 *
 * Invariants: an answer is kept for a minute, for its tenant and token alone, so that a plan and
 * the launch after it mean the same files; questions at once are bounded, and each in time; what is
 * asked goes to public addresses only (ADR-0033).
 */
import { EinsoraError } from '../contract/errors.ts';
import type { Clock } from '../lib/clock.ts';
import { digest, type Secret } from '../lib/secret.ts';
import { SourceError } from '../models/source-error.ts';
import { parseModelName, sourceText } from '../models/source-name.ts';
import { planSource, type SourcePlan, type Sources } from '../models/source-plan.ts';

export type RemoteModel = {
  /** The pinned name: what is recorded. */
  source: string;
  revision: string | null;
  format: 'gguf' | 'safetensors';
  /** Of the file that an engine is given. */
  main: string;
  bytes: number;
  file_count: number;
  repo: string | null;
};

export type ModelSources = {
  /** Null for what is of no hub or server. Throws EinsoraError. */
  look(tenant_id: string, model: string): Promise<RemoteModel | null>;
};

export type ModelSourcesDeps = {
  sources: Sources;
  clock: Clock;
  hubToken(tenant_id: string): Promise<Secret | null>;
};

const kept_ms = 60_000;
const kept_at_most = 500;
const at_once = 16;
const question_ms = 20_000;
const retry_ms = 500;

type Kept = { at: number; answer: Promise<RemoteModel> };

export function createModelSources(deps: ModelSourcesDeps): ModelSources {
  const kept = new Map<string, Kept>();
  let asking = 0;
  const question = async (name: Named, token: Secret | null): Promise<RemoteModel> => {
    if (asking >= at_once) throw new EinsoraError('too_many_requests');
    asking += 1;
    try {
      return describe(await ask(deps, name, token));
    } finally {
      asking -= 1;
    }
  };
  return {
    async look(tenant_id, model) {
      const name = parseModelName(model);
      if (name.kind !== 'hub' && name.kind !== 'https') return null;
      const token = name.kind === 'hub' ? await deps.hubToken(tenant_id) : null;
      const opened_by = token === null ? '' : digest(token.reveal());
      const key = JSON.stringify([tenant_id, opened_by, sourceText(name)]);
      const now = deps.clock.monotonic();
      for (const [old, { at }] of kept) {
        if (now - at > kept_ms || kept.size >= kept_at_most) kept.delete(old);
        else break;
      }
      const found = kept.get(key);
      if (found !== undefined) return found.answer;
      const answer = question(name, token);
      kept.set(key, { at: now, answer });
      answer.catch(() => kept.delete(key));
      return answer;
    },
  };
}

type Named = Parameters<typeof planSource>[1];

async function ask(deps: ModelSourcesDeps, name: Named, token: Secret | null): Promise<SourcePlan> {
  const { clock, sources } = deps;
  const ended = new AbortController();
  const cancel = clock.after(question_ms, () => ended.abort());
  const once = () => planSource(sources, name, token, ended.signal);
  try {
    return await once().catch(async (error: unknown) => {
      // One more, for a connection that broke; who is asked to wait is told so.
      const again = error instanceof SourceError && error.temporary && !error.retry_after_ms;
      if (!again) throw error;
      await clock.sleep(retry_ms, ended.signal);
      return once();
    });
  } catch (error) {
    if (error instanceof SourceError) throw new EinsoraError(error.code, error.details, error);
    if (ended.signal.aborted) throw tooSlow(sources, name);
    throw error;
  } finally {
    cancel();
  }
}

function tooSlow(sources: Sources, name: Named): EinsoraError {
  const url = new URL(name.kind === 'hub' ? sources.hub_url : name.url);
  const code = name.kind === 'hub' ? 'hub_unreachable' : 'source_unreachable';
  const why = `no whole answer came in ${question_ms / 1000} s`;
  return new EinsoraError(code, { host: url.host, url: url.origin, why });
}

function describe(plan: SourcePlan): RemoteModel {
  const { source, revision, format, main, bytes, files, hub } = plan;
  const repo = hub?.repo ?? null;
  return { source, revision, format, main, bytes, file_count: files.length, repo };
}
