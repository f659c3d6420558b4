/**
 * What the doctor says: facts in, grouped findings and a verdict out.
 *
 * Invariants: pure. `ready` answers one question: can an endpoint run on this machine? What only
 * other kinds need (GPU, KVM, Docker) never spoils it; what Einsora brings by itself at the first
 * launch is a warning and not a lack. Every lack comes with what to do about it.
 */
import type { Inventory } from '../contract/machines.ts';
import { formatBytes } from '../core/format.ts';
import { type Details, fixOf, type ReasonCode, sentenceOf } from '../core/reasons.ts';

export type Finding = Inventory['findings'][number];
export type Group = { name: string; findings: Finding[] };
export type Diagnosis = { ready: boolean; groups: Group[] };

export type EngineFact =
  | { kind: 'found'; label: string }
  | { kind: 'fetchable'; download_bytes: number | null }
  | { kind: 'missing'; code: ReasonCode; details: Details };

export type FolderFact = {
  path: string;
  exists: boolean;
  /** Why it (or where it would be made) cannot be written; null where it can. */
  unwritable: string | null;
  /** Other users of the machine can read it. */
  open_to_others: boolean;
  free_bytes: number;
};

export type StoreFact =
  | { kind: 'file'; path: string; exists: boolean; version: string; network: string | null }
  /** `address` is without its password; `why` it cannot be used, or null. */
  | { kind: 'postgres'; address: string; version: string; why: null }
  | { kind: 'postgres'; address: string; code: ReasonCode; why: string };

export type DoctorFacts = {
  inventory: Inventory;
  /** The driver that the main job needs on this system. */
  main_driver: string;
  /** Bytes of bubblewrap to fetch, where Einsora can; null where it cannot. */
  sandbox_download_bytes: number | null;
  engine: EngineFact;
  folder: FolderFact;
  store: StoreFact;
  control_plane: { url: string; pid: number; version: string; healthy: boolean } | null;
  port: { number: number; free: boolean };
  /** How `up` is written here, with the data folder where one was given. */
  up_command: string;
};

/** Weights, engine and sandbox of the built-in model, and some room to run. */
const enough_disk_bytes = 500e6;

export function collectFindings(facts: DoctorFacts): Diagnosis {
  const { inventory } = facts;
  const of = (...checks: string[]) =>
    inventory.findings.filter((finding) => checks.includes(finding.check));
  const native = driverFindings(facts, facts.main_driver);
  const caps = native.filter((finding) => finding.check === 'caps');
  const sandbox = native.filter((finding) => finding.check !== 'caps');
  const essential: Group[] = [
    { name: 'machine', findings: [systemFinding(inventory), ...of('cpu', 'memory', 'disk')] },
    { name: 'sandbox', findings: sandbox.map((finding) => fetchable(facts, finding)) },
    { name: 'memory caps', findings: caps },
    { name: 'engine', findings: [engineFinding(facts.engine)] },
    { name: 'data folder', findings: folderFindings(facts.folder) },
    { name: 'store', findings: [storeFinding(facts)] },
  ];
  const other: Group[] = [
    { name: 'gpu', findings: of('gpu', 'gpu use') },
    { name: 'virtualization', findings: [...of('kvm'), ...driverFindings(facts, 'libvirt')] },
    { name: 'docker', findings: saidOnce([...of('docker'), ...driverFindings(facts, 'docker')]) },
    { name: 'owner', findings: of('policy', 'pause') },
    { name: 'port', findings: [portFinding(facts)] },
    { name: 'control plane', findings: [controlPlaneFinding(facts)] },
  ];
  const lacks = essential.flatMap(({ findings }) =>
    findings.filter((finding) => finding.status === 'missing'),
  );
  const groups = [...essential, ...other].filter(({ findings }) => findings.length > 0);
  return { ready: lacks.length === 0 && native.length > 0, groups };
}

function systemFinding({ os, os_version, arch, name }: Inventory): Finding {
  return ok('system', `${name}: ${[os, os_version].filter(Boolean).join(' ')}, ${arch}`);
}

function driverFindings({ inventory }: DoctorFacts, name: string): Finding[] {
  const driver = inventory.drivers.find((one) => one.driver === name);
  if (driver === undefined) return [];
  if (driver.findings.length > 0) return driver.findings;
  if (driver.ready) return [ok(name, `the driver ${name} is ready`)];
  const message = driver.why ?? `the driver ${name} is not ready`;
  return [{ check: name, status: 'missing', message, fix: null }];
}

/** A driver without findings of its own repeats the machine's. */
function saidOnce(findings: Finding[]): Finding[] {
  return findings.filter(
    ({ message }, at) => findings.findIndex((one) => one.message === message) === at,
  );
}

/** A bubblewrap that is not there is fetched at the first launch; one that does not work is not. */
function fetchable(facts: DoctorFacts, finding: Finding): Finding {
  const bytes = facts.sandbox_download_bytes;
  if (finding.check !== 'bubblewrap' || finding.status !== 'missing' || bytes === null) {
    return finding;
  }
  const message = `${finding.message}; the first launch fetches it (${formatBytes(bytes)})`;
  return { ...finding, status: 'warning', message };
}

function engineFinding(engine: EngineFact): Finding {
  switch (engine.kind) {
    case 'found':
      return ok('engine', engine.label);
    case 'fetchable': {
      const size = engine.download_bytes === null ? '' : ` (${formatBytes(engine.download_bytes)})`;
      const message = `llama.cpp is not installed yet; the first launch fetches it${size}`;
      return { check: 'engine', status: 'warning', message, fix: null };
    }
    case 'missing':
      return {
        check: 'engine',
        status: 'missing',
        message: sentenceOf(engine.code, engine.details),
        fix: fixOf(engine.code, engine.details),
      };
  }
}

function folderFindings(folder: FolderFact): Finding[] {
  const check = 'data folder';
  const { path, free_bytes } = folder;
  if (folder.unwritable !== null) {
    const details = { data_dir: path, why: folder.unwritable };
    const message = sentenceOf('data_dir_unwritable', details);
    return [{ check, status: 'missing', message, fix: fixOf('data_dir_unwritable', details) }];
  }
  const found = folder.exists ? `${path} can be written` : `${path} will be made by the first up`;
  const findings = [ok(check, `${found}, ${formatBytes(free_bytes)} free`)];
  if (free_bytes < enough_disk_bytes) {
    const needed = formatBytes(enough_disk_bytes);
    const message = `only ${formatBytes(free_bytes)} are free, the built-in model needs ${needed}`;
    findings.push({ check: 'free space', status: 'missing', message, fix: `df -h ${path}` });
  }
  if (folder.open_to_others) {
    const message = 'other users of this machine can read the data folder';
    findings.push({ check: 'permissions', status: 'warning', message, fix: `chmod 700 ${path}` });
  }
  return findings;
}

function storeFinding({ store, folder }: DoctorFacts): Finding {
  const check = 'store';
  if (store.kind === 'postgres') {
    const { address, why } = store;
    if (why === null) return ok(check, `Postgres ${store.version} at ${address}`);
    const details = { database: address, why };
    const message = sentenceOf(store.code, details);
    return { check, status: 'missing', message, fix: fixOf(store.code, details) };
  }
  if (store.network !== null) {
    const details = { data_dir: folder.path, type: store.network };
    const message = sentenceOf('data_dir_on_network', details);
    return { check, status: 'missing', message, fix: fixOf('data_dir_on_network', details) };
  }
  const found = store.exists ? store.path : `${store.path}, which the first up makes`;
  return ok(check, `SQLite ${store.version} in ${found}`);
}

function portFinding({ port, control_plane, up_command }: DoctorFacts): Finding {
  if (control_plane !== null)
    return ok('port', `in use by the control plane: ${control_plane.url}`);
  if (port.free) return ok('port', `${port.number} is free`);
  const message = `${port.number} is taken by another program`;
  return {
    check: 'port',
    status: 'warning',
    message,
    fix: `${up_command} --port ${port.number + 1}`,
  };
}

function controlPlaneFinding({ control_plane, up_command }: DoctorFacts): Finding {
  const check = 'control plane';
  if (control_plane === null) {
    return { check, status: 'warning', message: 'not running', fix: up_command };
  }
  const { url, pid, version, healthy } = control_plane;
  if (healthy) return ok(check, `serves at ${url} (version ${version}, process ${pid})`);
  const message = `process ${pid} is there, and ${url} does not answer`;
  return { check, status: 'warning', message, fix: `kill ${pid}, then: ${up_command}` };
}

function ok(check: string, message: string): Finding {
  return { check, status: 'ok', message, fix: null };
}
