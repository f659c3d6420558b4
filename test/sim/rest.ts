/**
 * A step of the control plane's clock while something rests between two attempts: it is not to rest
 * the longer for it.
 */
import type { Deployment } from './deployment.ts';
import type { Story } from './story.ts';

type Context = {
  story: Story;
  deployment: Deployment;
  is_over: boolean;
  later(ms: number, work: () => void): void;
};
type Resting = { id: string; event_number: number };

/** No attempt rests for longer, nor is what is due seen later than that. */
const looked_ms = 15 * 60_000;

/** Looks after each write until something rests, at most until all is made well. */
export function stepAtRest(context: Context, step: () => void): void {
  const { deployment } = context;
  deployment.afterWrites(() => {
    if (context.is_over) return true;
    const resting = deployment.database.watch.get<Resting>(
      `select id, event_number from workloads where state in ('pending', 'queued')
         and not_before > ?1 limit 1`,
      deployment.host.now() + 500,
    );
    if (resting === undefined) return false;
    step();
    checkLooked(context, resting);
    return true;
  });
}

/** It is tried, or told what it waits for: where nobody was in the way of that, something happens. */
function checkLooked({ story, deployment, later }: Context, resting: Resting): void {
  const { controlPlane: before } = deployment;
  later(looked_ms, () => {
    const { controlPlane: there, database } = deployment;
    if (there === null || there !== before || there.incarnation > 1) return;
    const row = database.watch.get<Resting>(
      "select id, event_number from workloads where id = ?1 and state = 'pending'",
      resting.id,
    );
    if (row === undefined || row.event_number > resting.event_number) return;
    story.violate('bounded', `${row.id} rests since the clock was set`);
  });
}
