/**
 * GPUs in words, for the doctor and the machine's page: one finding for each GPU, one for each
 * thing that is to be known of it, or why there is none.
 *
 * Invariants: pure; every lack says what to do about it on this system; notes of programs that
 * ended with an error stand here only, for they change nothing.
 */
import type { GpuRecord, GpuState } from '../../contract/gpus.ts';
import { formatMemory } from '../../core/format.ts';
import { type GpuReasonCode, gpuMeanings } from '../../core/gpus.ts';
import type { Finding } from '../../drivers/driver.ts';
import { program_xids } from './gpu-health.ts';
import type { GpuSnapshot } from './gpu-snapshot.ts';

const check = 'gpu';
const cpu_works = 'the CPU classes work without a GPU';

export function gpuFindings(seen: GpuSnapshot, gpus: readonly GpuRecord[]): Finding[] {
  const findings = gpus.flatMap(describe);
  if (gpus.length === 0) findings.push(noDevice(seen));
  else if (seen.bus.displays.some((one) => one.vendor === 'intel')) {
    const message = 'its Intel graphics are not an accelerator';
    findings.push({ check, status: 'ok', message, fix: null });
  }
  return [...findings, ...programErrors(seen), ...logFindings(seen), ...useFindings(gpus)];
}

function describe(gpu: GpuRecord): Finding[] {
  const { state, reasons } = gpu;
  const rest = reasons.map(({ code, message, fix }): Finding => {
    return { check, status: statusOf(code, fix), message, fix };
  });
  // Where something is wrong with it, that says which GPU it is.
  return state === 'ok' ? [head(gpu), ...rest] : rest;
}

function head({ model, pci, memory_bytes, usable_by }: GpuRecord): Finding {
  const size = memory_bytes > 0 ? `, ${formatMemory(memory_bytes)}` : '';
  const what = `${model}${pci === null ? '' : ` at ${pci}`}${size}`;
  const by = usable_by.map((driver) => users[driver]).join(' and ');
  if (by !== '') {
    return { check, status: 'ok', message: `${what}: usable by ${by}`, fix: null };
  }
  const message = `${what}: it is well, and nothing here can use it yet`;
  return { check, status: 'warning', message, fix: null };
}

const users = { docker: 'containers', libvirt: 'virtual machines' } as const;

/** What an owner has chosen, or may choose, is no lack. */
const choices: readonly string[] = ['gpu_set_aside', 'gpu_not_dedicated', 'gpu_mig'];

function statusOf(code: string, fix: string | null): Finding['status'] {
  if (choices.includes(code) || fix === null) return 'ok';
  const state = meaning(code)?.state ?? 'unknown';
  return soft.includes(state) ? 'warning' : 'missing';
}

const soft: readonly GpuState[] = ['ok', 'busy_owner', 'degraded', 'unknown'];

function meaning(code: string) {
  return Object.hasOwn(gpuMeanings, code) ? gpuMeanings[code as GpuReasonCode] : null;
}

function programErrors({ log }: GpuSnapshot): Finding[] {
  return Object.entries(log.gpus).flatMap(([pci, { xids }]): Finding[] => {
    const seen = program_xids.filter((xid) => (xids[xid] ?? 0) > 0);
    if (seen.length === 0) return [];
    const count = seen.reduce((sum, xid) => sum + (xids[xid] ?? 0), 0);
    const times = count === 1 ? 'a program on it has' : `${count} times a program on it has`;
    const which = seen.join(', ');
    const message = `GPU at ${pci}: ${times} failed (Xid ${which}); the GPU itself is well`;
    return [{ check, status: 'ok', message, fix: null }];
  });
}

function logFindings({ log, module }: GpuSnapshot): Finding[] {
  if (log.unread === null || module === null) return [];
  const message = `errors of GPUs in the kernel's log are not seen: ${log.unread}`;
  const fix = 'sudo usermod -aG systemd-journal "$USER", then sign in again';
  return [{ check, status: 'warning', message, fix }];
}

/** Devices are not held by runs yet (ADR-0049), so none is handed out, however well it is. */
function useFindings(gpus: readonly GpuRecord[]): Finding[] {
  if (!gpus.some((gpu) => gpu.usable_by.length > 0)) return [];
  const message = 'no workload is given a GPU by this version yet';
  return [{ check: 'gpu use', status: 'warning', message, fix: cpu_works }];
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
