/**
 * Codes of why something waits, and why a machine was not chosen: a part of the one table in
 * ../reasons.ts. `{counts}` is what the machines said that a tenant may know of: ": 2 busy".
 */
import type { Reason } from '../reasons.ts';

const waits = (sentence: string, fix: string | null = 'bin/einsora machines') => ({
  ...{ status: 409, sentence, fix },
});

export const placementReasons = {
  // Of all machines together
  all_matching_reserved: waits(
    'What is free is kept for what has waited longer{counts}.',
    'bin/einsora ls',
  ),
  all_matching_draining: waits('Every machine that could run this is being drained{counts}.'),
  all_matching_reclaimed: waits(
    'Every machine that could run this is taken back by its owner{counts}.',
  ),
  all_matching_refuse: waits(
    'The owners of the machines that could run this do not let guests do that{counts}.',
  ),
  no_driver_ready: waits('No machine here is ready to run this{counts}.', 'bin/einsora doctor'),
  no_machine_trusted: waits(
    'Only machines of others could run this, and with weak isolation, which is for their owners alone{counts}.',
    'ask an owner for a driver of virtual machines (libvirt, macos-vz, macos-container)',
  ),
  no_machine_in_region: waits(
    'No machine of region {region} is here for this{counts}.',
    'ask for another --region: bin/einsora machines',
  ),

  // Of one machine
  cpu_short: waits(
    '{machine} offers {offered} ({free} free), less than the {asked} asked for.',
    'ask for a smaller class: bin/einsora catalog',
  ),
  memory_short: waits(
    '{machine} offers {offered} ({free} free), less than the {asked} asked for.',
    'ask for a smaller class: bin/einsora catalog',
  ),
  disk_short: waits(
    '{machine} offers {offered} ({free} free), less than the {asked} asked for.',
    'ask for a smaller --disk',
  ),
  reserved_for_head: waits(
    '{machine} has room, and keeps it for the first of {class}, which has waited {waited}.',
    'bin/einsora ls',
  ),
  other_region: waits('{machine} is in region {region}, not in {asked}.'),
  machine_draining: waits('{machine} is being drained: it takes nothing new.'),
  machine_reclaimed: waits('{machine} is taken back by its owner since {since}{until}.'),

  // Of the machine that keeps its disk
  home_busy: waits(
    'Its disk is on {machine}, which has {free} free, and {asked} are asked for; the rest is held by {holders}.',
    'bin/einsora ls',
  ),
  home_offline: waits(
    'Its disk is on {machine}, which has not been heard of since {since}.',
    'bin/einsora machines',
  ),
  home_elsewhere: waits('Its disk is on another machine than {machine}.', null),
  home_removed: waits(
    'The machine that keeps its disk is not here any more, or not shared with your tenant any more.',
    'bin/einsora rm {name}, then launch it anew',
  ),

  // Regions and classes
  unknown_region: {
    status: 400,
    sentence: 'There is no region {region}; known: {known}.',
    fix: 'bin/einsora machines',
  },
  region_needed: {
    status: 400,
    sentence: 'There is more than one region, so say which: {known}.',
    fix: 'add --region, one of: {known}',
  },
  class_not_in_region: {
    status: 400,
    sentence: 'The class {class} is not offered in region {region}.',
    fix: 'bin/einsora classes show {class}',
  },
  machine_in_use: {
    status: 409,
    sentence: '{machine} still keeps the disks of {what}.',
    fix: 'bin/einsora ls, then: bin/einsora rm <name>',
  },
  region_in_use: {
    status: 409,
    sentence: '{machine} cannot change its region while something lives there: {what}.',
    fix: 'bin/einsora ls, then: bin/einsora rm <name>',
  },
  class_in_use: {
    status: 409,
    sentence: '{count} workloads wait for the class {class}; it can go once they do not.',
    fix: 'bin/einsora ls',
  },
  unknown_entry: {
    status: 404,
    sentence: 'There is no {sort} {entry} in the catalog.',
    fix: 'bin/einsora {sort}s ls',
  },
  entry_invalid: {
    status: 400,
    sentence: 'The {sort} {entry} is not valid: {problem}.',
    fix: 'bin/einsora {sort}s show <name> --json',
  },
} as const satisfies Record<string, Reason>;
