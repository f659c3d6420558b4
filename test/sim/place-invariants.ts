/**
 * Where runs are: in the region that was asked for, and at home where they have one.
 */
import type { Story } from './story.ts';
import type { Watch } from './watch.ts';

type Row = {
  run_epoch: number;
  machine_id: string;
  region: string;
  asked: string;
  home_machine_id: string | null;
  kind: string;
};

export function checkPlaces(story: Story, watch: Watch, id: string): void {
  const rows = watch.all<Row>(
    `select r.run_epoch, r.machine_id, m.region, json_extract(w.spec, '$.region') as asked,
       w.home_machine_id, w.kind
     from runs r join workloads w on w.id = r.workload_id join machines m on m.id = r.machine_id
     where r.workload_id = ?1`,
    id,
  );
  for (const { run_epoch, machine_id, region, asked, home_machine_id, kind } of rows) {
    const name = `${id} run ${run_epoch}`;
    if (region !== asked) story.violate('I-13', `${name} is in ${region}, ${asked} was asked for`);
    if (kind === 'endpoint' && home_machine_id !== null) {
      story.violate('home', `${id} is an endpoint and has a home`);
    }
    if (kind !== 'endpoint' && home_machine_id !== machine_id) {
      story.violate('home', `${name} is on ${machine_id}, its disk on ${home_machine_id}`);
    }
  }
}
