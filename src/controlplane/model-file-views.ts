/**
 * Model files as the API shows them.
 *
 * Invariants: only the tenant's own workloads are named as users; a URL is shown without its query,
 * which may hold a signature.
 */
import { type ModelFile, modelCheckSchema } from '../contract/model-files.ts';
import { type Details, fixOf, isReasonCode, sentenceOf } from '../core/reasons.ts';
import { listModelUses, type ModelFileRow } from '../store/model-files.ts';
import type { ApiDeps } from './api-deps.ts';

export async function modelFileViews(
  deps: Pick<ApiDeps, 'store' | 'modelSync'>,
  tenant_id: string,
  rows: ModelFileRow[],
): Promise<ModelFile[]> {
  const machine_ids = [...new Set(rows.map((row) => row.machine_id))];
  const uses = await deps.store.read(listModelUses, { tenant_id, machine_ids });
  return rows.map((row) => {
    const users = uses.filter(
      (use) => use.machine_id === row.machine_id && use.model === row.source,
    );
    const { id, machine_id, machine_name, state, format, revision, sha256, bytes } = row;
    const progress = state === 'fetching' ? deps.modelSync.progressOf(machine_id, id) : null;
    return {
      ...{ id, machine_id, machine_name, source: shownSource(row.source), state },
      ...{ format, revision, sha256, bytes },
      done_bytes: progress?.done_bytes ?? null,
      total_bytes: progress?.total_bytes ?? null,
      in_use_by: users.map((use) => use.name),
      reason: reasonOf(row),
      checked: row.checked === null ? null : modelCheckSchema.parse(JSON.parse(row.checked)),
      created_at: row.created_at,
    };
  });
}

function shownSource(source: string): string {
  return source.startsWith('https:') ? source.replace(/\?.*$/s, '') : source;
}

function reasonOf(row: ModelFileRow): ModelFile['reason'] {
  if (row.code === null || !isReasonCode(row.code)) return null;
  const again = `bin/einsora models pull ${shownSource(row.source)}`;
  const details = { ...(JSON.parse(row.details) as Details), again };
  return { code: row.code, message: sentenceOf(row.code, details), fix: fixOf(row.code, details) };
}
