/**
 * GPUs in words, for the doctor and the machine's page: one finding for each GPU, one for each
 * thing that is to be known of it, or why there is none.
 *
 * Invariants: pure; every lack says what to do about it on this system; notes of programs that ended
 * with an error stand here only, for they change nothing.
 */
import type { GpuRecord, GpuState } from '../../contract/gpus.ts';
import { formatMemory } from '../../core/format.ts';
import { type GpuReasonCode, gpuMeanings } from '../../core/gpus.ts';
import type { Finding } from '../../drivers/driver.ts';
import { program_xids } from './gpu-health.ts';
import type { GpuSnapshot } from './gpu-snapshot.ts';

const check = 'gpu';
const cpu_works = 'the CPU classes work without a GPU';

const headings: Record<GpuState, string> = {
  ok: 'works',
  degraded: 'takes nothing new',
  unhealthy: 'is unhealthy',
  missing: 'is missing',
  busy_owner: 'is in use by its owner',
  unsupported: 'cannot be used',
  needs_reboot: 'needs a reboot',
  unknown: 'could not be looked at',
};

export function gpuFindings(seen: GpuSnapshot, gpus: readonly GpuRecord[]): Finding[] {
  const findings = gpus.flatMap(describe);
  if (gpus.length === 0) findings.push(noDevice(seen));
  else if (seen.bus.displays.some((one) => one.vendor === 'intel')) {
    const message = 'its Intel graphics are not an accelerator';
    findings.push({ check, status: 'ok', message, fix: null });
  }
  return [...findings, ...programErrors(seen), ...logFindings(seen)];
}

function describe(gpu: GpuRecord): Finding[] {
  const { state, usable_by, reasons } = gpu;
  const size = gpu.memory_bytes > 0 ? `, ${formatMemory(gpu.memory_bytes)}` : '';
  const where = gpu.pci === null ? '' : ` at ${gpu.pci}`;
  const what = `${gpu.model}${where}${size}`;
  const users = { docker: 'containers', libvirt: 'virtual machines' } as const;
  const by = usable_by.map((driver) => users[driver]).join(' and ');
  const use = state !== 'ok' ? '' : by === '' ? '; no driver can use it' : `; usable by ${by}`;
  const is_usable = state === 'ok' && usable_by.length > 0;
  const is_soft = state === 'ok' || state === 'busy_owner' || state === 'degraded';
  const first = reasons.find(({ code }) => meaning(code)?.state === state && state !== 'ok');
  const head: Finding = {
    check,
    status: is_usable ? 'ok' : is_soft || state === 'unknown' ? 'warning' : 'missing',
    message: `${what}: ${headings[state]}${use}`,
    fix: null,
  };
  const rest = reasons.map(({ code, message, fix }): Finding => {
    const is_cause = code === first?.code;
    const is_note = meaning(code)?.state === 'ok';
    const status = is_note ? (fix === null ? 'ok' : 'warning') : is_cause ? head.status : 'warning';
    return { check, status, message, fix };
  });
  return [head, ...rest];
}

function meaning(code: string) {
  return Object.hasOwn(gpuMeanings, code) ? gpuMeanings[code as GpuReasonCode] : null;
}

function programErrors({ log }: GpuSnapshot): Finding[] {
  return Object.entries(log.gpus).flatMap(([pci, { xids }]): Finding[] => {
    const seen = program_xids.filter((xid) => (xids[xid] ?? 0) > 0);
    if (seen.length === 0) return [];
    const count = seen.reduce((sum, xid) => sum + (xids[xid] ?? 0), 0);
    const times = count === 1 ? 'a program on it has' : `${count} times a program on it has`;
    const message = `GPU at ${pci}: ${times} failed (Xid ${seen.join(', ')}); the GPU itself is well`;
    return [{ check, status: 'ok', message, fix: null }];
  });
}

function logFindings({ log }: GpuSnapshot): Finding[] {
  if (log.unread === null) return [];
  const message = `errors of GPUs in the kernel's log are not seen: ${log.unread}`;
  const fix = 'sudo usermod -aG systemd-journal "$USER", then sign in again';
  return [{ check, status: 'warning', message, fix }];
}

function noDevice(seen: GpuSnapshot): Finding {
  const { bus, inside, is_wsl, nvidia } = seen;
  if (is_wsl) {
    const why = nvidia.trouble?.kind === 'timeout' ? ' (nvidia-smi did not answer)' : '';
    const fix = "install NVIDIA's driver in Windows, then: wsl --shutdown";
    return missing(`no NVIDIA GPU reaches ${inside ?? 'Linux inside Windows'}${why}`, fix);
  }
  if (bus.devices === null) {
    return missing('no GPU: there is no PCI bus to be seen from here', cpu_works);
  }
  const own = bus.displays.some((one) => one.vendor === 'intel')
    ? ' (its Intel graphics cannot run models)'
    : bus.displays.some((one) => one.vendor === 'amd')
      ? " (its processor's AMD graphics cannot run models)"
      : '';
  const count = `none of the ${bus.devices} devices on the PCI bus is an NVIDIA GPU${own}`;
  if (inside === null) return missing(`no GPU: ${count}`, `add an NVIDIA GPU; ${cpu_works}`);
  return missing(
    `no GPU: ${count}; this is ${inside}, which sees only what its host passes through`,
    `pass a GPU through to it on its host; ${cpu_works}`,
  );
}

function missing(message: string, fix: string): Finding {
  return { check, status: 'missing', message, fix };
}
