/**
 * Backups of the control plane, and what comes after one was restored: a store that forgot, and
 * sometimes the one before it, which still runs somewhere.
 */
import { startControlPlane } from './control-plane.ts';
import { type Database, openDatabase } from './database.ts';
import type { Deployment } from './deployment.ts';
import { createHost } from './host.ts';
import type { Story } from './story.ts';

export function backUp(story: Story, deployment: Deployment): void {
  deployment.backup = { copy: deployment.database.copy(), at: story.time.now() };
  for (const machine of deployment.machines) machine.snapshot = new Map(machine.disk.files);
}

export function restore(
  story: Story,
  deployment: Deployment,
  fault: { down_ms: number; zombie_ms: number },
): void {
  const { backup, invariants, client } = deployment;
  // One copy at a time: what was restored is not restored again while its double runs.
  if (backup === null || deployment.zombie !== null || deployment.is_restoring) return;
  const old = deployment.database;
  const database = openDatabase(backup.copy, deployment.store_epoch + 1);
  deployment.is_restoring = true;
  deployment.process?.kill('its data folder is replaced');
  deployment.database = database;
  deployment.old = old;
  deployment.backup = null;
  deployment.store_epoch += 1;
  invariants.reset(database.watch);
  client.restored(backup.at);
  database.restore().then(() => {
    deployment.is_restoring = false;
    story.tell('cp', `the store of ${backup.at} is restored`);
    story.time.at(story.time.now() + fault.down_ms, deployment.bringUpControlPlane);
  });
  if (fault.zombie_ms > 0) raise(story, deployment, old, fault.zombie_ms);
}

/** The control plane from before comes up once more, on what it had. */
function raise(story: Story, deployment: Deployment, old: Database, for_ms: number): void {
  const life = startControlPlane(
    story,
    createHost(story.time, 'old-cp'),
    old,
    (there) => {
      deployment.zombie = there;
    },
    () => {
      deployment.zombie = null;
    },
  );
  story.time.at(story.time.now() + for_ms, () => life.kill('it was found'));
  // An agent that begins anew meanwhile has to know by itself which of the two to obey.
  story.time.at(story.time.now() + for_ms / 2, () => {
    const { machines, zombie } = deployment;
    if (zombie === null) return;
    machines[Math.floor(for_ms) % machines.length]?.agent?.life.kill('between two stores');
  });
}
