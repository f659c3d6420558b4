/**
 * The sandbox of a run: bubblewrap's options for a spec, and the proof that it works here.
 *
 * Invariants: a run sees /usr, the mounts of its spec, its socket folder and nothing else of the
 * host; the root and the kernel's settings are read-only; no capabilities; no network unless asked
 * for. `sandboxOptions` is pure.
 */
import { existsSync, readlinkSync } from 'node:fs';
import { exec } from '../../lib/exec.ts';
import { isErrno, readIfThere } from '../../lib/files.ts';
import { type Finding, port_folder, type RunSpec } from '../driver.ts';

export type BwrapFinder = {
  find(): Promise<{ path: string; version: string } | { missing: string }>;
};

export type HostSnapshot = {
  /** /bin, /lib and their like: where each link leads, or null for a folder. */
  roots: { path: string; link: string | null }[];
  /** Which files of /proc exist that say too much or do too much. */
  hidden: string[];
};

/** The first bubblewrap with bounded tmpfs and a switch against nested user namespaces. */
const oldest_version = [0, 8];
const temporary_bytes = 1024 ** 3;
const probe_timeout_ms = 5000;

/** Folders and files of the machine that are made for the run alone. */
export type OwnFiles = {
  sockets: string;
  /** Null for a run without a workspace. */
  workspace: { folder: string; passwd: string; group: string } | null;
};

export function sandboxOptions(spec: RunSpec, own: OwnFiles, host: HostSnapshot): string[] {
  const target = spec.workspace?.target ?? null;
  return [
    ...base(host, spec.network),
    '--clearenv',
    ...Object.entries(spec.env).flatMap(([name, value]) => ['--setenv', name, value]),
    ...spec.mounts.flatMap((mount) => [
      mount.writable ? '--bind' : '--ro-bind',
      mount.source,
      mount.target,
    ]),
    ...['--bind', own.sockets, port_folder],
    ...(target === null || own.workspace === null
      ? []
      : [
          ...['--bind', own.workspace.folder, target],
          ...['--ro-bind', own.workspace.passwd, '/etc/passwd'],
          ...['--ro-bind', own.workspace.group, '/etc/group'],
        ]),
    ...['--chdir', target ?? '/tmp'],
    ...['--remount-ro', '/'],
  ];
}

function base(host: HostSnapshot, network: RunSpec['network']): string[] {
  const etc = ['ld.so.cache', 'ld.so.conf', 'ld.so.conf.d', 'alternatives', 'localtime'];
  if (network === 'host') etc.push('resolv.conf', 'hosts', 'nsswitch.conf', 'ssl', 'pki');
  return [
    '--unshare-user',
    '--unshare-all',
    ...(network === 'host' ? ['--share-net'] : []),
    '--disable-userns',
    '--die-with-parent',
    '--new-session',
    ...['--cap-drop', 'ALL'],
    ...['--hostname', 'einsora'],
    ...['--ro-bind', '/usr', '/usr'],
    ...host.roots.flatMap(({ path, link }) =>
      link === null ? ['--ro-bind', path, path] : ['--symlink', link, path],
    ),
    ...etc.flatMap((name) => ['--ro-bind-try', `/etc/${name}`, `/etc/${name}`]),
    ...['--proc', '/proc'],
    // The kernel lets the owner of these files write them whatever the capabilities say.
    ...['sys', 'fs', 'irq', 'bus', 'sysrq-trigger', 'mtrr', 'pressure'].flatMap((name) => [
      '--ro-bind-try',
      `/proc/${name}`,
      `/proc/${name}`,
    ]),
    ...host.hidden.flatMap((path) => ['--ro-bind', '/dev/null', path]),
    ...['--dev', '/dev'],
    ...['--size', String(temporary_bytes), '--tmpfs', '/tmp'],
  ];
}

export function readHostSnapshot(): HostSnapshot {
  const roots = ['/bin', '/sbin', '/lib', '/lib64'].filter(existsSync);
  const hidden = ['kcore', 'keys', 'timer_list', 'latency_stats', 'sched_debug', 'kallsyms'];
  return {
    roots: roots.map((path) => ({ path, link: linkOf(path) })),
    hidden: hidden.map((name) => `/proc/${name}`).filter(existsSync),
  };
}

/** Runs an empty program in the sandbox, so that only a sandbox that works counts as one. */
export async function checkSandbox(bwrap: BwrapFinder): Promise<SandboxCheck> {
  const found = await bwrap.find();
  if ('missing' in found) {
    return bad('bubblewrap', found.missing, 'apt-get install bubblewrap');
  }
  const [major = 0, minor = 0] = found.version.split('.').map(Number);
  const [old_major = 0, old_minor = 0] = oldest_version;
  if (major < old_major || (major === old_major && minor < old_minor)) {
    const why = `${found.path} is version ${found.version}, ${oldest_version.join('.')} is needed`;
    return bad('bubblewrap', why, 'install a newer bubblewrap');
  }
  const options = [...base(readHostSnapshot(), 'none'), '--clearenv', '--remount-ro', '/'];
  const tried = await exec(found.path, [...options, '--', '/bin/sh', '-c', 'exit 0'], {
    timeout_ms: probe_timeout_ms,
    env: {},
    output_limit_bytes: 4096,
  });
  if (tried.outcome === 'exited' && tried.code === 0) {
    const message = `bubblewrap ${found.version} works (${found.path})`;
    return { path: found.path, finding: ok('sandbox', message) };
  }
  const said = tried.outcome === 'timeout' ? 'it did not come back' : tried.stderr.trim();
  const settings = Object.fromEntries(
    namespace_settings.map(({ name }) => [
      name,
      readIfThere(`/proc/sys/${name.replaceAll('.', '/')}`)?.trim() ?? null,
    ]),
  );
  const fix = namespaceFix(settings) ?? `${found.path} --unshare-all --ro-bind / / true`;
  return bad('sandbox', `bubblewrap does not work here (${said.split('\n')[0]})`, fix);
}

export type SandboxCheck =
  | { path: string; finding: Finding }
  | { path: null; why: string; finding: Finding };

const namespace_settings = [
  { name: 'kernel.unprivileged_userns_clone', bad: '0', good: '1' },
  { name: 'kernel.apparmor_restrict_unprivileged_userns', bad: '1', good: '0' },
  { name: 'user.max_user_namespaces', bad: '0', good: '15000' },
];

/** The command that lets users make namespaces, from the kernel settings that may forbid it. */
export function namespaceFix(settings: Record<string, string | null>): string | null {
  const at_fault = namespace_settings.find(({ name, bad }) => settings[name] === bad);
  if (at_fault === undefined) return null;
  const command = `sysctl -w ${at_fault.name}=${at_fault.good}`;
  return at_fault.name.includes('apparmor')
    ? `${command}, or an AppArmor profile for bwrap with the rule "userns,"`
    : command;
}

function bad(check: string, why: string, fix: string): SandboxCheck {
  return { path: null, why, finding: { check, status: 'missing', message: why, fix } };
}

function ok(check: string, message: string): Finding {
  return { check, status: 'ok', message, fix: null };
}

function linkOf(path: string): string | null {
  try {
    return readlinkSync(path);
  } catch (error) {
    if (isErrno(error, 'EINVAL')) return null;
    throw error;
  }
}
