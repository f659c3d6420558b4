/**
 * Codes of machines and their devices: a part of the one table in ../reasons.ts. `{gpu}` is a
 * phrase such as "NVIDIA L4 at 0000:01:00.0"; what a GPU's code means for its state is in
 * ../gpus.ts.
 */
import type { Reason } from '../reasons.ts';

/** The doctor of that machine prints the command that helps there. */
const on_machine = 'bin/einsora doctor';

const gpu = (sentence: string, fix: string | null = null) => ({ status: 409, sentence, fix });

export const machineReasons = {
  machine_silent: {
    status: 503,
    sentence: '{machine} was asked to look at itself and did not answer within {seconds} s.',
    fix: 'bin/einsora machines, and on that machine: bin/einsora doctor',
  },

  // What people do about a machine (ADR-0056)
  machine_name_taken: {
    status: 409,
    sentence: 'Your tenant has a machine {name} already.',
    fix: 'give another name: bin/einsora machine ls',
  },
  machine_still_heard: {
    status: 409,
    sentence:
      '{machine} was heard of less than {seconds} s ago, or Einsora began no longer ago: it is not said to be off while it may speak.',
    fix: 'power it off, wait {seconds} s, then say it again',
  },
  machine_has_runs: {
    status: 409,
    sentence: '{machine} may still run {what}.',
    fix: 'bin/einsora machine drain {machine} --stop, or where it is off: bin/einsora machine fence {machine} --powered-off',
  },
  machine_drained: {
    status: 409,
    sentence: '{machine} was cleared by its owner; this goes on wherever it can.',
    fix: 'bin/einsora show {name}',
  },
  machine_not_yours: {
    status: 403,
    sentence: '{machine} belongs to {owner}: only its own admins do that.',
    fix: 'bin/einsora machine ls',
  },
  sharing_not_yours: {
    status: 403,
    sentence: '{machine} belongs to another tenant: only its own admins share it further.',
    fix: 'to share it with fewer: bin/einsora machine share {machine} --private',
  },
  home_lost: {
    status: 409,
    sentence:
      'What it kept was on {machine}, which {who} removed for good: its disk is not there any more.',
    fix: 'to begin anew with an empty disk: bin/einsora start {name}',
  },

  // The driver and its tool
  gpu_driver_missing: gpu('{gpu} has no driver.', on_machine),
  gpu_nouveau: gpu('{gpu} is run by nouveau, which cannot compute.', on_machine),
  gpu_driver_not_loaded: gpu('The driver of {gpu} is installed and not loaded{hint}.', on_machine),
  gpu_driver_mismatch: gpu(
    'The driver of {gpu} was updated while the old one runs ({loaded} is loaded, its library is {library}): what runs goes on, nothing new starts.',
    on_machine,
  ),
  gpu_tool_missing: gpu('{gpu} cannot be asked: nvidia-smi or its library is missing.', on_machine),
  gpu_tool_silent: gpu(
    '{gpu} could not be looked at: nvidia-smi did not answer within {seconds} s.',
    on_machine,
  ),
  gpu_tool_failed: gpu('{gpu} could not be looked at: nvidia-smi says: {why}.', on_machine),
  gpu_no_permission: gpu('This user may not open the device files of {gpu}.', on_machine),
  gpu_not_listed: gpu('{gpu} is on the PCI bus, and its driver does not list it.', on_machine),

  // Its health
  gpu_lost: gpu('{gpu} has fallen off the bus{xid}.', on_machine),
  gpu_gone: gpu(
    '{gpu} is not there any more.',
    'where that is wanted: bin/einsora machine refresh',
  ),
  gpu_not_answering: gpu('{gpu} answers with errors ({what}).', on_machine),
  gpu_power_cable: gpu(
    '{gpu} lacks power: its cables are not attached.',
    'attach them, then reboot',
  ),
  gpu_inforom: gpu('The infoROM of {gpu} is damaged; it may still compute.', on_machine),
  gpu_memory_error: gpu(
    '{gpu} had memory errors ({what}); nothing new starts on it until it is reset.',
    on_machine,
  ),
  gpu_memory_failing: gpu(
    'The memory of {gpu} is failing ({what}): it should be replaced.',
    on_machine,
  ),
  gpu_firmware_stuck: gpu(
    'The firmware of {gpu} does not answer its driver (Xid {xid}).',
    on_machine,
  ),
  gpu_reset_needed: gpu('{gpu} asks to be reset.', on_machine),
  gpu_reboot_needed: gpu('{gpu} asks for a reboot of its machine.', on_machine),

  // Who uses it, and what it is for
  gpu_busy: gpu(
    '{gpu} is used by programs that are not of Einsora: {programs}.',
    'end them, or wait until they end: nvidia-smi',
  ),
  gpu_mig: gpu(
    'MIG is on for {gpu}: its instances are devices of their own, the whole is not.',
    on_machine,
  ),
  gpu_mig_empty: gpu('MIG is on for {gpu}, and it has no instances.', on_machine),
  gpu_set_aside: gpu('{gpu} is set aside for virtual machines (vfio-pci).', on_machine),
  gpu_display: gpu(
    '{gpu} drives a display ({display}): {reserved} of its memory are kept for that, and virtual machines do not get it.',
  ),
  gpu_unified_memory: gpu(
    '{gpu} shares the memory of its machine: {share} of {total} count as its own.',
  ),
  gpu_in_wsl: gpu(
    '{gpu} reaches Linux through Windows: isolation is weak, some of its memory stays with Windows, and virtual machines do not get it.',
  ),
  gpu_persistence_off: gpu(
    '{gpu} drives no display, and its driver unloads it between uses, which makes starts slow.',
    on_machine,
  ),
  gpu_amd_unsupported: gpu('{gpu} is an AMD GPU, for which nothing here runs yet.'),
  gpu_amd_driver_missing: gpu(
    '{gpu} is an AMD GPU without its compute driver (/dev/kfd).',
    on_machine,
  ),

  // Containers
  gpu_engine_missing: gpu(
    'No Docker Engine is there to give {gpu} to a container.',
    'bin/einsora doctor',
  ),
  gpu_engine_old: gpu(
    'Docker speaks API {api}; to give out {gpu} it needs 1.44 (Docker 25).',
    on_machine,
  ),
  gpu_engine_snap: gpu('Docker here is the snap, which cannot give out {gpu}.', on_machine),
  gpu_toolkit_missing: gpu(
    "NVIDIA's container toolkit is missing, so that no container gets {gpu}.",
    on_machine,
  ),
  gpu_toolkit_old: gpu(
    "NVIDIA's container toolkit {version} lets containers out (CVE-2025-23266): below {floor}, {gpu} is for the machine's owner alone.",
    on_machine,
  ),
  gpu_cdi_off: gpu('Docker has CDI switched off, by which containers get {gpu}.', on_machine),
  gpu_cdi_missing: gpu('No CDI specification tells Docker of {gpu}.', on_machine),
  gpu_cdi_stale: gpu(
    'The CDI specification {path} is for driver {found}; {gpu} runs with {loaded}.',
    on_machine,
  ),
  gpu_cdi_unlisted: gpu('The CDI specification {path} does not name {uuid} of {gpu}.', on_machine),

  // Virtual machines
  gpu_iommu_off: gpu('{gpu} cannot be given to a virtual machine: no IOMMU is on.', on_machine),
  gpu_group_shared: gpu(
    '{gpu} cannot be given to a virtual machine alone: IOMMU group {group} also holds {others}.',
  ),
  gpu_no_reset: gpu('{gpu} cannot be given to a virtual machine: it has no way to be reset.'),
  gpu_boot_display: gpu(
    '{gpu} cannot be given to a virtual machine: the machine boots on it.',
    'make another GPU the first one, in its firmware setup',
  ),
  gpu_not_dedicated: gpu(
    '{gpu} could be given to a virtual machine, and is not set aside.',
    on_machine,
  ),
} as const satisfies Record<string, Reason>;
