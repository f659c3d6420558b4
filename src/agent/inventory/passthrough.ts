/**
 * Could this GPU be given to a virtual machine whole, and what stands in the way?
 *
 * Invariants: pure; says yes only of a GPU whose group holds nothing but its own functions and
 * bridges, that can be reset, on which the machine does not boot, and which vfio-pci holds already:
 * taking it from a driver that is using it can hang the kernel, so a person sets it aside.
 * Overriding the groups (ACS) is never suggested: they are what keeps the guest in.
 */
import type { GpuReasonCode } from '../../core/gpus.ts';
import type { Details } from '../../core/reasons.ts';
import type { Distribution } from './distribution.ts';
import type { PciDisplay, PciMember } from './pci.ts';

export type GpuReason = { code: GpuReasonCode; details: Details; fix: string | null };

export function judgePassthrough(card: PciDisplay, here: Distribution): GpuReason[] {
  const { group, address } = card;
  const aside = card.driver === 'vfio-pci';
  const found: GpuReason[] = [];
  const add = (code: GpuReasonCode, details: Details, fix: string | null) =>
    found.push({ code, details, fix });
  if (aside) {
    const fix = `to give it back to this system: ${here.sudo}driverctl unset-override ${address}`;
    add('gpu_set_aside', {}, fix);
  }
  if (group === null) {
    const fix = 'switch on VT-d or AMD-Vi in the firmware setup, and boot with intel_iommu=on';
    add('gpu_iommu_off', {}, fix);
    return found;
  }
  const others = group.members.filter((one) => !one.is_bridge && !isSameCard(one, card));
  if (others.length > 0) {
    const fix = 'put one of them into another slot, where the groups differ';
    add('gpu_group_shared', { group: group.number, others: describe(others) }, fix);
  }
  if (card.is_boot_display) {
    add('gpu_boot_display', {}, 'make another GPU the first one, in its firmware setup');
  }
  if (!card.can_reset) add('gpu_no_reset', {}, 'use it in containers');
  const is_able = others.length === 0 && !card.is_boot_display && card.can_reset;
  if (is_able && !aside && card.screens.length === 0) {
    const command = `${here.sudo}driverctl set-override ${address} vfio-pci`;
    const fix = `to set it aside from the next boot on: ${command}`;
    add('gpu_not_dedicated', {}, fix);
  }
  return found;
}

/** Functions of one card (its GPU, sound, USB) differ only in the digit after the dot. */
function isSameCard(one: PciMember, card: PciDisplay): boolean {
  return one.address.split('.')[0] === card.address.split('.')[0];
}

function describe(members: PciMember[]): string {
  const shown = members.slice(0, 4).map(({ address, what, driver }) => {
    return `${what} at ${address}${driver === null ? '' : ` (${driver})`}`;
  });
  if (members.length > 4) shown.push(`${members.length - 4} more`);
  return shown.join(', ');
}
