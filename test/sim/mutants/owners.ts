/**
 * Mutants of what the owners of machines decide: how much is offered, and whether anything comes.
 */
import type { Mutant } from './mutant.ts';

export const ownerMutants: readonly Mutant[] = [
  {
    name: 'inventory-ignores-cap',
    bug: 'I-12',
    file: 'src/store/machines.ts',
    find: '  const most = offeredWithin(capsOf(row), offered);',
    replace: '  const most = offered;',
    why: 'an agent offers more than the owner of its machine lets it',
  },
  {
    name: 'drained-machine-takes-more',
    bug: 'C8',
    file: 'src/core/suitable.ts',
    find: "  if (machine.drained) return 'machine_draining';\n",
    replace: '',
    also: {
      file: 'src/store/sharing.ts',
      find: ' and removed_at is null and drained_at is null',
      replace: ' and removed_at is null',
    },
    why: 'what is placed on a machine that is being emptied has to go again at once',
  },
];
