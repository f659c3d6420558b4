/**
 * A model that a tenant has on a machine already, for when its hub cannot be asked.
 *
 * Invariants: only what the same tenant fetched counts; where more than one fits the name, none is
 * guessed.
 */
import type { EinsoraError } from '../contract/errors.ts';
import { hasQuant } from '../models/hub-choice.ts';
import { parseModelName } from '../models/source-name.ts';
import { listModelFiles, type ModelFileRow } from '../store/model-files.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import type { RemoteModel } from './model-sources.ts';

const cannot_be_asked = new Set<string>([
  'hub_unreachable',
  'hub_failing',
  'hub_rate_limited',
  'source_unreachable',
  'source_failing',
]);
const looked_at = 500;

export function isOutOfReach(error: EinsoraError): boolean {
  return cannot_be_asked.has(error.code);
}

/** What is meant by a name, of what is kept; null where nothing is, or more than one. */
export async function keptModel(
  store: EinsoraStore,
  tenant_id: string,
  model: string,
): Promise<RemoteModel | null> {
  const rows = await store.read(listModelFiles, { tenant_id, after: null, limit: looked_at });
  const fitting = rows.filter((row) => row.state === 'ready' && isMeant(model, row.source));
  const [first] = fitting;
  const is_one = fitting.every((row) => row.source === first?.source);
  return first === undefined || !is_one ? null : describe(first);
}

function isMeant(model: string, source: string): boolean {
  const asked = parseModelName(model);
  const kept = parseModelName(source);
  if (asked.kind === 'https') return kept.kind === 'https' && kept.url === asked.url;
  if (asked.kind !== 'hub' || kept.kind !== 'hub' || kept.repo !== asked.repo) return false;
  // A branch may have moved; what it is now only the hub knows, so the newest known stands for it.
  const is_commit = asked.revision !== null && /^[0-9a-f]{40}$/.test(asked.revision);
  if (is_commit && asked.revision !== kept.revision) return false;
  if (asked.path !== null) return asked.path === kept.path;
  return asked.quant === null || hasQuant(kept.path ?? '', asked.quant);
}

function describe(row: ModelFileRow): RemoteModel {
  const name = parseModelName(row.source);
  const path = name.kind === 'hub' ? (name.path ?? '') : new URL(row.source).pathname;
  return {
    source: row.source,
    revision: row.revision,
    format: row.format === 'safetensors' ? 'safetensors' : 'gguf',
    main: path.split('/').at(-1) ?? path,
    bytes: row.bytes ?? 0,
    file_count: 1,
    repo: name.kind === 'hub' ? name.repo : null,
  };
}
