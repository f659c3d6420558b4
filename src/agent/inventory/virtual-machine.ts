/**
 * Is this itself a virtual machine, and whose? It decides what a missing GPU or KVM means.
 *
 * Invariants: null means that nothing says so, which is not proof of bare metal.
 */
type Read = (path: string) => string | null;

const vendors: [RegExp, string][] = [
  [/^QEMU|^KVM/i, 'a QEMU/KVM virtual machine'],
  [/VMware/i, 'a VMware virtual machine'],
  [/innotek|VirtualBox/i, 'a VirtualBox virtual machine'],
  [/Xen/i, 'a Xen virtual machine'],
  [/Amazon EC2/i, 'an Amazon EC2 virtual machine'],
  [/Google/i, 'a Google Cloud virtual machine'],
  [/Microsoft/i, 'a Hyper-V virtual machine'],
  [/DigitalOcean|Hetzner|Scaleway|OpenStack/i, "a cloud provider's virtual machine"],
];

/** A noun phrase ("a VMware virtual machine"), or null. */
export function virtualMachine(read: Read): string | null {
  if (/microsoft/i.test(read('/proc/version') ?? '')) return 'Linux inside Windows (WSL)';
  const flags = /^flags\s*:.*\bhypervisor\b/m.test(read('/proc/cpuinfo') ?? '');
  const xen = read('/sys/hypervisor/type')?.trim() === 'xen';
  if (!flags && !xen) return null;
  const vendor = `${read('/sys/class/dmi/id/sys_vendor') ?? ''}`.trim();
  return vendors.find(([pattern]) => pattern.test(vendor))?.[1] ?? 'a virtual machine';
}
