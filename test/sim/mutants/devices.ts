/**
 * Mutants of GPUs: who has one, when it is free again, and whether its run is told. That nobody is
 * put beside a stranger is guarded three times over (placement, store, database), each by tests of
 * its own: no single line lets the simulator see it broken.
 */
import type { Mutant } from './mutant.ts';

export const deviceMutants: readonly Mutant[] = [
  {
    name: 'gpu-never-freed',
    bug: 'C4, C16',
    file: 'src/store/device-holds.ts',
    find: '`delete from taken_devices where machine_id = $1',
    replace: '`delete from taken_devices where machine_id = $1 and device = taker',
    why: "a GPU whose run is proven gone is nobody else's ever after",
  },
  {
    name: 'gpu-freed-while-shared',
    bug: 'I-01, C12',
    file: 'src/store/device-holds.ts',
    find: `\`delete from taken_devices where machine_id = $1
       and not exists (select 1 from holds h where h.taken = taken_devices.id)\`,`,
    replace: `\`delete from taken_devices where machine_id = $1 and not exists
       (select 1 from holds h where h.taken = taken_devices.id and h.sharer = '')\`,`,
    why: 'the end of one of those who share a GPU gives it to others, while the rest go on',
  },
  {
    name: 'gpus-of-another-run',
    bug: 'C10, B-05',
    file: 'src/core/desired.ts',
    find: `row.gpu_uuids === '' ? {} : { gpu_uuids: row.gpu_uuids.split(',') }`,
    replace: `row.gpu_uuids === '' ? {} : { gpu_uuids: ['GPU-m0-0'] }`,
    why: 'every run is started on the first GPU, whichever it holds',
  },
];
