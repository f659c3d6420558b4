/**
 * The volume that holds what a workload keeps: its workspace.
 *
 * Invariants: one for each workload, labelled with it, and only ever removed by `eraseVolume`; it
 * belongs to the run's user before the first run begins; one of the same name that is not ours is
 * left alone.
 */
import { posix } from 'node:path';
import type { Workspace } from '../driver.ts';
import { label_prefix, stringsOf } from './container.ts';
import type { Engine } from './engine.ts';
import { driverError, isStatus } from './engine-error.ts';
import { folderArchive, readEntry, type TarEntry } from './tar.ts';

export function volumeName(workload_id: string): string {
  return `ein-${workload_id}`;
}

/** Makes the volume where it is not there yet. */
export async function ensureVolume(
  engine: Engine,
  install_id: string,
  workload_id: string,
): Promise<string> {
  const name = volumeName(workload_id);
  const found = await readVolume(engine, name);
  if (found !== null && found[`${label_prefix}install`] !== install_id) {
    throw driverError('volume_name_taken', { volume: name });
  }
  if (found === null) {
    const Labels = {
      [`${label_prefix}install`]: install_id,
      [`${label_prefix}workload`]: workload_id,
    };
    const json = { Name: name, Driver: 'local', Labels };
    await engine.json({ method: 'POST', path: '/volumes/create', json });
  }
  return name;
}

/** Ends what a workload keeps. Nothing kept, or kept by somebody else, is no error. */
export async function eraseVolume(
  engine: Engine,
  install_id: string,
  workload_id: string,
): Promise<void> {
  const name = volumeName(workload_id);
  const found = await readVolume(engine, name);
  if (found?.[`${label_prefix}install`] !== install_id) return;
  try {
    await engine.json({ method: 'DELETE', path: `/volumes/${name}`, timeout_ms: 60_000 });
  } catch (error) {
    if (isStatus(error, 404)) return;
    if (isStatus(error, 409)) {
      const details = { name: workload_id, why: 'a container still uses it' };
      throw driverError('workspace_in_use', details, error);
    }
    throw error;
  }
}

/**
 * Gives the workspace's folder to the run's user, inside a container that was not begun yet. It
 * takes no program of the image and no access to the engine's disk: the engine unpacks it.
 */
export async function ownWorkspace(
  engine: Engine,
  container_id: string,
  { target, uid, gid }: Workspace,
): Promise<void> {
  const path = `/containers/${container_id}/archive`;
  const now = await readFolder(engine, path, target);
  if (now.uid === uid && now.gid === gid) return;
  const name = posix.basename(target);
  const body = folderArchive({ name, uid, gid, mode: now.mode });
  const query = { path: posix.dirname(target) };
  await engine.json({ method: 'PUT', path, query, body });
}

async function readFolder(engine: Engine, path: string, target: string): Promise<TarEntry> {
  const answer = await engine.open({ method: 'GET', path, query: { path: target } });
  try {
    return await readEntry(answer);
  } finally {
    answer.destroy();
  }
}

/** The labels of a volume; null where there is none. */
async function readVolume(engine: Engine, name: string): Promise<Record<string, string> | null> {
  try {
    const found = await engine.json({ method: 'GET', path: `/volumes/${name}` });
    return stringsOf((found as { Labels?: unknown } | null)?.Labels);
  } catch (error) {
    if (isStatus(error, 404)) return null;
    throw error;
  }
}
