/**
 * How much CPU and memory this process can really use on Linux.
 *
 * Invariants: the smallest of what the hardware has and what every control group above this process
 * allows (version 1 and 2), so that a machine in a container never offers its host's memory.
 */
export type Capacity = {
  cpu_model: string;
  /** Whole cores, one at least. */
  cpu_count: number;
  /** Thousandths of a core: less than the cores where a quota cuts one. */
  cpu_millis: number;
  memory_bytes: number;
  /** What a control group or CPU mask took away, for people; empty where nothing did. */
  narrowed_by: string[];
};

type Read = (path: string) => string | null;

export function readCapacity(read: Read): Capacity {
  const cpuinfo = read('/proc/cpuinfo') ?? '';
  const listed = cpuinfo.match(/^processor\s*:/gm)?.length ?? 1;
  const mask = /^Cpus_allowed_list:\s*(\S+)/m.exec(read('/proc/self/status') ?? '')?.[1];
  const allowed = mask === undefined ? listed : countList(mask);
  const cores = Math.max(1, Math.min(listed, allowed));
  const quota = smallest(groupFolders(read, 'cpu').map((folder) => cpuQuota(read, folder)));
  const cpu_millis = Math.max(1, Math.min(cores * 1000, quota));

  const total_kib = /^MemTotal:\s*(\d+) kB/m.exec(read('/proc/meminfo') ?? '')?.[1] ?? '0';
  const total = Number(total_kib) * 1024;
  const limit = smallest(groupFolders(read, 'memory').map((folder) => memoryLimit(read, folder)));

  const narrowed_by: string[] = [];
  if (cores < listed) narrowed_by.push(`this process may use ${cores} of ${listed} cores`);
  if (quota < cores * 1000) narrowed_by.push(`a control group caps CPU at ${quota / 1000} cores`);
  if (limit < total) {
    narrowed_by.push(`a control group caps memory at ${Math.floor(limit / 2 ** 20)} MiB`);
  }
  return {
    cpu_model: cpuModel(cpuinfo),
    cpu_count: Math.max(1, Math.floor(cpu_millis / 1000)),
    cpu_millis,
    memory_bytes: Math.min(total, limit),
    narrowed_by,
  };
}

/** "0-3,8" counts 5. */
export function countList(text: string): number {
  return text
    .split(',')
    .map((part) => part.split('-').map(Number))
    .reduce((sum, [from = 0, to = from]) => sum + (to - from + 1), 0);
}

function cpuModel(cpuinfo: string): string {
  const name = /^(?:model name|Model|Hardware)\s*:\s*(.+)$/m.exec(cpuinfo)?.[1];
  return (name ?? 'unknown').trim().slice(0, 256);
}

/** The folders of this process's group and of all above it, for one controller. */
function groupFolders(read: Read, controller: string): string[] {
  const groups = (read('/proc/self/cgroup') ?? '').split('\n').map((line) => line.split(':'));
  const mounts = (read('/proc/self/mountinfo') ?? '').split('\n').map(parseMount);
  const folders: string[] = [];
  for (const [, controllers, ...rest] of groups) {
    if (controllers === undefined) continue;
    const unified = controllers === '';
    if (!unified && !controllers.split(',').includes(controller)) continue;
    const mount = mounts.find((one) =>
      unified
        ? one?.type === 'cgroup2'
        : one?.type === 'cgroup' && one.options.includes(controller),
    );
    if (mount) folders.push(...upwards(mount.point, below(mount.root, rest.join(':'))));
  }
  return folders;
}

/** A container sees its own group as the mount's root, and its path still from the host's root. */
function below(root: string, path: string): string {
  if (root === '/') return path;
  return path === root || path.startsWith(`${root}/`) ? path.slice(root.length) : '';
}

function upwards(point: string, path: string): string[] {
  const parts = path.split('/').filter((part) => part !== '' && part !== '..');
  return Array.from({ length: parts.length + 1 }, (_, kept) =>
    [point, ...parts.slice(0, parts.length - kept)].join('/'),
  );
}

function parseMount(line: string) {
  const [before, after] = line.split(' - ');
  const [, , , root, point] = (before ?? '').split(' ');
  const [type, , options] = (after ?? '').split(' ');
  if (!root || !point || !type) return null;
  return { root, point, type, options: (options ?? '').split(',') };
}

function cpuQuota(read: Read, folder: string): number {
  const [quota, period] = (read(`${folder}/cpu.max`) ?? '').trim().split(' ');
  if (quota && period) return millis(Number(quota), Number(period));
  const quota_us = Number(read(`${folder}/cpu.cfs_quota_us`) ?? Number.NaN);
  return millis(quota_us, Number(read(`${folder}/cpu.cfs_period_us`) ?? Number.NaN));
}

function millis(quota_us: number, period_us: number): number {
  const value = Math.floor((quota_us / period_us) * 1000);
  return value > 0 ? value : Number.POSITIVE_INFINITY; // "max", -1 and unreadable: no quota
}

function memoryLimit(read: Read, folder: string): number {
  const text = read(`${folder}/memory.max`) ?? read(`${folder}/memory.limit_in_bytes`) ?? 'max';
  const value = Number(text.trim());
  return value > 0 ? value : Number.POSITIVE_INFINITY;
}

function smallest(values: number[]): number {
  return values.reduce((least, value) => Math.min(least, value), Number.POSITIVE_INFINITY);
}
