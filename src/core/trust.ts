/**
 * Who may run what where: one pure answer for API, controller, desired state and agent (ADR-0014).
 *
 * Invariants: isolation follows from the driver, by this table, never from what an agent says; weak
 * isolation is for the machine owner's own workloads only.
 */
export const driverIsolation = {
  sim: 'weak',
  'linux-native': 'weak',
  'macos-native': 'weak',
  docker: 'weak',
  libvirt: 'strong',
  'macos-vz': 'strong',
  'macos-container': 'strong',
} as const satisfies Record<string, Isolation>;

export type Isolation = 'strong' | 'weak';
export type DriverName = keyof typeof driverIsolation;
/** trusted: a run of the machine's owner; untrusted: of anybody else. */
export type IsolationTier = 'trusted' | 'untrusted';
export type TrustLevel = 'owner' | 'invited' | 'community';
export type Sharing = 'private' | 'invite-only' | 'community';

/** How a tenant stands to a machine: members of the owning tenant are its owners. */
export function trustLevel(
  tenant_id: string,
  machine: { owner_tenant_id: string; invited_tenant_ids: readonly string[] },
): TrustLevel {
  if (tenant_id === machine.owner_tenant_id) return 'owner';
  return machine.invited_tenant_ids.includes(tenant_id) ? 'invited' : 'community';
}

/**
 * Whose row of the matrix a driver takes. `as` is what a made-up machine says to be, which counts
 * in dev mode alone: whoever reads it there, and nobody else, passes it on.
 */
export function rowOf(driver: DriverName, as?: DriverName | null): DriverName {
  return driver === 'sim' ? (as ?? 'sim') : driver;
}

export function isolationOf(driver: DriverName, as?: DriverName | null): Isolation {
  return driverIsolation[rowOf(driver, as)];
}

/**
 * The trust matrix: may a workload of this trust level run by this driver on a machine so shared?
 */
export function mayRun(
  trust: TrustLevel,
  driver: DriverName,
  sharing: Sharing,
  as?: DriverName | null,
): boolean {
  if (trust === 'owner') return true;
  if (isolationOf(driver, as) === 'weak') return false;
  return sharedWith(trust, sharing);
}

/** How a run stands to its machine's owner: theirs, or somebody else's. */
export function tierOf(trust: TrustLevel): IsolationTier {
  return trust === 'owner' ? 'trusted' : 'untrusted';
}

/**
 * Managed inference: may a tenant send prompts to an endpoint of the machine's owner, and do
 * nothing else there (ADR-0058)? Only where the owner opened it to them and shares the machine with
 * them; the driver does not matter, for nothing of theirs runs.
 */
export function mayPrompt(trust: TrustLevel, sharing: Sharing, is_open: boolean): boolean {
  return trust === 'owner' || (is_open && sharedWith(trust, sharing));
}

/** Whether a machine so shared is lent to this level at all; its owner needs no sharing. */
function sharedWith(trust: TrustLevel, sharing: Sharing): boolean {
  if (trust === 'owner') return true;
  if (trust === 'invited') return sharing !== 'private';
  return sharing === 'community';
}

/**
 * May a tenant know that the machine is there? One that is shared with nobody does not exist for
 * others: no list, plan or reason names or counts it.
 */
export function maySee(trust: TrustLevel, machine: { sharing: Sharing }): boolean {
  return sharedWith(trust, machine.sharing);
}

const no_wall = "keeps the workload from the host's data, not the host from the workload's";
const outside = 'from outside the virtual machine, and the keys that were put into it';

/** What each way of running leaves open to whoever owns the machine. */
const seen: Readonly<Record<DriverName, string>> = {
  sim: 'nothing runs here: sim only pretends',
  'linux-native':
    `everything: its files, memory, variables, prompts and answers, as of any program of the ` +
    `host (a sandbox ${no_wall})`,
  'macos-native':
    `everything: its files, memory, variables, prompts and answers, as of any program of the ` +
    `host (a sandbox ${no_wall})`,
  docker:
    `everything: its files, memory, variables, prompts and answers, its processes and whom it ` +
    `talks to (a container ${no_wall})`,
  libvirt:
    `its disk image, its memory and its console, ${outside}; the memory of a GPU that was passed ` +
    'to it is hidden from usual tools, not from a determined owner',
  'macos-vz': `its disk image, its memory and its screen, ${outside}`,
  'macos-container': `its disk image, its memory, its variables and its output, ${outside}`,
};

/** What the machine's host can see of a workload, in one honest sentence. */
export function hostSees(driver: DriverName, as?: DriverName | null): string {
  const row = rowOf(driver, as);
  return row === driver ? seen[driver] : `${seen[driver]} (as ${row}: ${seen[row]})`;
}
