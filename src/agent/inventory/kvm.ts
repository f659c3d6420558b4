/**
 * Can this machine run virtual machines with KVM?
 *
 * Invariants: a device file proves nothing. It counts when the processor says that it virtualises,
 * the file opens for this user, and a guest of a few instructions really ran to its end within its
 * time (a /dev/kvm without the processor's flag may run those few and still hang a real kernel);
 * where QEMU is not there to try that, the finding says `unproven`.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Finding } from '../../drivers/driver.ts';
import type { ExecResult } from '../../lib/exec.ts';
import { type Distribution, installCommand, packageNames } from './distribution.ts';
import type { MachineReader, Opened } from './machine-reader.ts';
import { virtualMachine } from './virtual-machine.ts';

export type KvmSnapshot = {
  here: Distribution;
  inside: string | null;
  arch: string;
  device: Opened;
  /** The processor's flag: vmx (Intel), svm (AMD), or none. Arm has no such flag to read. */
  flag: 'vmx' | 'svm' | null;
  /** What the trial guest did; null where it was not tried. */
  trial: 'ran' | 'hung' | 'no_qemu' | { failed: string } | null;
};

const trial_timeout_ms = 10_000;
const trial_exit_code = 33;

export async function lookForKvm(
  reader: MachineReader,
  here: Distribution,
  place: { arch: string; folder: string },
): Promise<Finding> {
  const flags = /^flags\s*:(.*)$/m.exec(reader.read('/proc/cpuinfo') ?? '')?.[1]?.split(' ') ?? [];
  const flag = flags.includes('vmx') ? 'vmx' : flags.includes('svm') ? 'svm' : null;
  const device = reader.open('/dev/kvm');
  const hopeful = device === 'opens' && (flag !== null || place.arch !== 'x64');
  const trial = hopeful ? await tryGuest(reader, place) : null;
  return judgeKvm({
    here,
    inside: virtualMachine(reader.read),
    arch: place.arch,
    device,
    flag,
    trial,
  });
}

export function judgeKvm(seen: KvmSnapshot): Finding {
  const { here, device } = seen;
  if (here.os === 'macOS') {
    return missing('KVM belongs to Linux; virtual machines on Macs are not supported yet', null);
  }
  if (seen.arch === 'x64' && seen.flag === null) {
    const reach =
      'no hardware virtualization reaches this machine (no vmx or svm in its CPU flags)';
    const lie = device === 'missing' ? '' : '/dev/kvm is there, but the device file lies: ';
    const fix =
      seen.inside === null
        ? 'switch on VT-x or AMD-V in its firmware setup'
        : `switch on nested virtualization on the host (this is ${seen.inside})`;
    return missing(`no usable KVM: ${lie}${reach}`, fix);
  }
  if (device === 'missing') {
    const module = seen.flag === 'vmx' ? 'kvm_intel' : seen.flag === 'svm' ? 'kvm_amd' : 'kvm';
    return missing(
      'no usable KVM: the processor could, but /dev/kvm is missing',
      `${here.sudo}modprobe ${module}   (if refused: dmesg | grep -i kvm)`,
    );
  }
  if (device === 'denied') {
    return missing(
      'no usable KVM: this user may not open /dev/kvm',
      `${here.sudo}usermod -aG kvm "$USER", then sign in again`,
    );
  }
  if (device === 'dead') {
    const message = 'no usable KVM: /dev/kvm is there, and nothing answers behind it';
    return missing(message, 'dmesg | grep -i kvm');
  }
  return judgeTrial(seen);
}

function judgeTrial({ here, trial }: KvmSnapshot): Finding {
  if (trial === 'ran') {
    return { check: 'kvm', status: 'ok', message: 'KVM runs a guest', fix: null };
  }
  if (trial === 'hung') {
    return missing(
      'no usable KVM: /dev/kvm opens, but a tiny guest did not end within ' +
        `${trial_timeout_ms / 1000} s`,
      'dmesg | grep -i kvm',
    );
  }
  if (trial === null || trial === 'no_qemu') {
    return {
      check: 'kvm',
      status: 'warning',
      message: 'KVM is unproven: /dev/kvm opens, but there is no QEMU to try a guest with',
      fix: installCommand(here, packageNames.qemu, 'QEMU'),
    };
  }
  return missing(`no usable KVM: a tiny guest failed: ${trial.failed}`, 'dmesg | grep -i kvm');
}

/**
 * A boot sector that writes 16 to port 0xf4, where QEMU's debug-exit device turns it into the exit
 * code 2 * 16 + 1: a guest that really executed, and nothing else, gives that code.
 */
export function trialSector(): Buffer {
  const sector = Buffer.alloc(512);
  Buffer.from('baf400b010eef4ebfd', 'hex').copy(sector); // mov dx,0xf4; mov al,16; out dx,al; hlt
  sector.writeUInt16LE(0xaa55, 510);
  return sector;
}

async function tryGuest(reader: MachineReader, place: { arch: string; folder: string }) {
  if (place.arch !== 'x64') return null;
  let folder: string | null = null;
  try {
    folder = mkdtempSync(join(place.folder, 'kvm-trial-'));
    const disk = join(folder, 'sector.img');
    writeFileSync(disk, trialSector(), { mode: 0o600 });
    return readTrial(await reader.run('qemu-system-x86_64', trialArgs(disk), trial_timeout_ms));
  } catch {
    return null; // a folder that cannot be written proves nothing about KVM
  } finally {
    if (folder !== null) rmSync(folder, { recursive: true, force: true });
  }
}

/** `accel` is `kvm`; tests try the same guest with `tcg`, QEMU's emulation. */
export function trialArgs(disk: string, accel = 'kvm'): string[] {
  return [
    ...['-accel', accel, '-machine', 'pc', '-m', '16', '-nodefaults', '-no-user-config'],
    ...['-display', 'none', '-no-reboot', '-device', 'isa-debug-exit,iobase=0xf4,iosize=0x04'],
    ...['-drive', `file=${disk},format=raw,if=ide`],
  ];
}

export function readTrial(result: ExecResult): KvmSnapshot['trial'] {
  if (result.outcome === 'failed') return 'no_qemu';
  if (result.outcome !== 'exited') return 'hung';
  if (result.code === trial_exit_code) return 'ran';
  const said = result.stderr.trim().split('\n').at(-1) ?? '';
  return { failed: said.slice(0, 200) || `exit code ${result.code}` };
}

function missing(message: string, fix: string | null): Finding {
  return { check: 'kvm', status: 'missing', message, fix };
}
