/**
 * Mutants of where things run: at home, and in the region.
 */
import type { Mutant } from './mutant.ts';

export const placeMutants: readonly Mutant[] = [
  {
    name: 'home-is-only-a-hint',
    bug: 'D9',
    file: 'src/store/fallback.ts',
    find: 'const only = home_machine_id || machine?.id || placement.machine_id;',
    replace: 'const only = (!home_machine_id && machine?.id) || placement.machine_id;',
    also: {
      file: 'src/store/homes.ts',
      find: 'askText({ ...spec, home_machine_id: machine_id })',
      replace: 'askText({ ...spec, home_machine_id: null })',
    },
    why: 'what has a disk on one machine is started on another one, without it',
  },
  {
    name: 'region-is-no-matter',
    bug: 'I-13',
    file: 'src/core/suitable.ts',
    find: "  if (machine.region !== ask.region) return 'other_region';",
    replace: "  if (machine.region === '') return 'other_region';",
    also: {
      file: 'src/store/sharing.ts',
      find: "and ($3 = '' or region = $3)",
      replace: "and ($3 = '' or region <> '')",
    },
    why: 'what was asked for in one region runs in another one',
  },
];
