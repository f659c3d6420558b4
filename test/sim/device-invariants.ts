/**
 * GPUs in the store of a story: each is held by one run, or by those of one creator who share it,
 * and is free when nobody holds it.
 */
import type { Story } from './story.ts';
import type { Watch } from './watch.ts';

export function checkDevices(story: Story, watch: Watch, machine_id: string): void {
  const twice = watch.get(
    `select device from holds where machine_id = ?1 and released_at is null and device <> ''
     group by device having count(*) > 1 and (min(sharer) = '' or min(sharer) <> max(sharer))`,
    machine_id,
  );
  if (twice !== undefined) story.violate('I-01', `a device of ${machine_id} is held twice`);
  const lost = watch.get(
    `select device from taken_devices t where machine_id = ?1
       and not exists (select 1 from holds h where h.taken = t.id)`,
    machine_id,
  );
  if (lost !== undefined) story.violate('I-02', `a device of ${machine_id} is taken, by nobody`);
}
