/**
 * Cases of the matrix: the catalog, which is nobody's and everybody's.
 */
import type { RouteName } from '../../src/contract/routes.ts';
import type { Case } from './cases.ts';

const plain = (how: Case['ask']): Case => ({ ask: how, reach: null, operator: false });

const size = {
  ...{ accelerator: 'cpu', delivery: 'native', cpu_millis: 1000, memory_bytes: 2 ** 30, weight: 1 },
};
const picture = {
  ...{ title: 'a picture', kinds: ['instance'] },
  runtimes: [{ accelerator: 'cpu', reference: 'someone/picture:1' }],
};

export const catalogCases: Partial<Record<RouteName, Case>> = {
  listClasses: plain(async () => ({})),
  showClass: plain(async () => ({ path: { gpu_class: 'cpu-1c-2g' } })),
  setClass: plain(async (world) => ({ path: { gpu_class: world.fresh() }, body: size })),
  removeClass: plain(async () => ({ path: { gpu_class: 'cpu-8c-32g' } })),
  resetClass: plain(async () => ({ path: { gpu_class: 'cpu-8c-32g' } })),
  listImages: plain(async () => ({})),
  showImage: plain(async () => ({ path: { image: 'python' } })),
  setImage: plain(async (world) => ({ path: { image: world.fresh() }, body: picture })),
  removeImage: plain(async () => ({ path: { image: 'python' } })),
  resetImage: plain(async () => ({ path: { image: 'python' } })),
};
