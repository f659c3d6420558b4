/**
 * Where a story must have come to once everything was well again for long enough.
 */
import { gpus_of_machine } from './amounts.ts';
import type { Deployment } from './deployment.ts';
import { checkResumed } from './reclaim-invariants.ts';
import type { Story } from './story.ts';
import { checkTrust } from './truths.ts';

type Row = { id: string; name: string; state: string; intent: string } & {
  code: string | null;
  park_cause: string;
};

export function checkConverged(story: Story, deployment: Deployment): void {
  const { watch } = deployment.database;
  const rows = watch.all<Row>('select id, name, state, intent, code, park_cause from workloads');
  for (const row of rows) checkWorkload(story, row);
  checkProgress(story, deployment, rows);
  checkResumed(story, watch);
  checkProcesses(story, deployment);
}

function checkWorkload(story: Story, row: Row): void {
  const { id, state, intent } = row;
  const say = (what: string) =>
    story.violate('liveness', `${id} is ${state} (${row.code}), wanted ${intent}: ${what}`);
  if (intent === 'deleted' && state !== 'deleted') say('it should be gone');
  if (intent === 'stopped' && state !== 'stopped') say('it should have stopped');
  if (intent !== 'running' || state === 'running' || state === 'failed') return;
  // Whether that is over is looked at apart (reclaim-invariants.ts).
  if (state === 'stopped' && row.park_cause === 'preempted') return;
  // It may give its place up at any time, to go back from a fallback.
  if (state === 'stopping' && row.code === 'returning_to_asked') return;
  if (state !== 'pending' && state !== 'queued') say('it should run');
}

/** I-16: of what waits at least one has no room, and may be why room is kept from the others. */
function checkProgress(story: Story, deployment: Deployment, rows: readonly Row[]): void {
  const beside = new Set(waitingReplicas(deployment));
  const waiting = rows.filter(
    ({ id, state }) => state === 'pending' || state === 'queued' || beside.has(id),
  );
  if (waiting.length === 0 || !waiting.every(({ id }) => hasRoom(deployment, id))) return;
  const ids = waiting.map(({ id, code }) => `${id} (${code})`).join(', ');
  story.violate('I-16', `there is room for each of ${ids}`);
}

/** Workloads that run and have a replica that waits for a place. */
function waitingReplicas({ database }: Deployment): string[] {
  const rows = database.watch.all<{ id: string }>(
    `select distinct w.id from replicas p join workloads w on w.id = p.workload_id
     where p.state = 'waiting' and w.state in ('provisioning', 'running') and w.intent = 'running'`,
  );
  return rows.map(({ id }) => id);
}

/** Whether a machine that may take it (weak ones only their owner's) has room, by the holds. */
function hasRoom({ database }: Deployment, id: string): boolean {
  const found = database.watch.get(
    `select m.id from machines m, workloads w
     where w.id = ?1
       and (m.tenant_id = w.tenant_id
         or (instr(m.inventory, '"macos-container"') > 0 and (m.sharing = 'community'
           or (m.sharing = 'invite-only' and exists (select 1 from machine_guests g
                 where g.machine_id = m.id and g.tenant_id = w.tenant_id)))))
       and m.drained_at is null
       and coalesce(w.home_machine_id, m.id) = m.id
       and (w.home_machine_id is not null or m.region = json_extract(w.spec, '$.region'))
       and coalesce(json_extract(w.spec, '$.machine.id'), m.id) = m.id
       and (m.reclaim_bars = '' or (m.reclaim_bars = 'guests' and m.tenant_id = w.tenant_id))
       and m.cpu_millis - (select coalesce(sum(cpu_millis), 0) from holds h
             where h.machine_id = m.id and released_at is null)
           >= json_extract(w.spec, '$.cpu_millis')
       and m.memory_bytes - (select coalesce(sum(memory_bytes), 0) from holds h
             where h.machine_id = m.id and released_at is null)
           >= json_extract(w.spec, '$.memory_bytes')
       and (json_extract(w.spec, '$.gpu_count') = 0 or (instr(m.inventory, '"nvidia"') > 0
         and json_extract(w.spec, '$.gpu_count') +
         (select count(distinct device) from holds h where h.machine_id = m.id
             and released_at is null and device <> '') <= ${gpus_of_machine}))`,
    id,
  );
  return found !== undefined;
}

/** What lives is what should live, and each journal holds what the store still knows of. */
function checkProcesses(story: Story, deployment: Deployment): void {
  const { database, machines, truths } = deployment;
  const runs = database.watch.all<{ name: string; wanted: string; ended_at: number | null }>(
    `select workload_id || '.' || replica || '.' || run_epoch as name, wanted, ended_at
     from runs where removed_at is null`,
  );
  const known = new Map(runs.map((run) => [run.name, run]));
  for (const { process, machine } of truths.alive()) {
    const { name } = process;
    const run = known.get(name);
    checkTrust({ story, there: () => deployment }, machine, process);
    if (run === undefined || run.ended_at !== null || run.wanted !== 'run') {
      story.violate('I-05', `${name} still lives: ${JSON.stringify(run ?? 'unknown')}`);
    }
  }
  for (const { name, ended_at } of runs) {
    if (ended_at === null && !truths.isAlive(name))
      story.violate('I-02', `${name} is held, not alive`);
  }
  for (const { disk, host } of machines) {
    for (const file of disk.files.keys()) {
      if (!file.endsWith('.json') || known.has(file.slice(0, -5))) continue;
      story.violate('I-05', `the journal of ${host.name} keeps ${file}`);
    }
  }
}
