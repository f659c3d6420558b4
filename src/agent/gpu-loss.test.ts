/**
 * A run whose GPU is lost ends with why; all others go on.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAgentRig, desire, runOf } from '../../test/lib/agent-rig.ts';
import type { GpuRecord } from '../contract/gpus.ts';
import { lostAmong } from './gpu-loss.ts';
import { createRuns } from './runs.ts';

const record = (uuid: string | null, state: GpuRecord['state'], message: string) =>
  ({ uuid, state, model: 'L40S', reasons: [{ code: 'c', message, fix: null }] }) as GpuRecord;

test('only what is proven to be gone is lost', () => {
  const found = lostAmong([
    record('GPU-1', 'missing', 'L40S has fallen off the bus (Xid 79).'),
    record('GPU-2', 'unknown', 'could not be looked at.'),
    record('GPU-3', 'unhealthy', 'answers with errors.'),
    record(null, 'missing', 'it was never named.'),
  ]);
  assert.deepEqual([...found], [['GPU-1', 'L40S has fallen off the bus (Xid 79)']]);
});

test('the run on it is ended and says why, one on another GPU and one without any go on', async () => {
  const rig = createAgentRig();
  const lost = new Map<string, string>();
  const runs = createRuns({ ...rig.deps, lostGpus: () => lost, changed: () => {} });
  try {
    const gpus = [['GPU-1'], ['GPU-2'], undefined];
    for (const [index, gpu_uuids] of gpus.entries()) {
      const wanted = desire(runOf(index + 1));
      const given = gpu_uuids === undefined ? {} : { gpu_uuids };
      const spec = wanted.spec && { ...wanted.spec, ...given };
      runs.carryOut([{ step: 'bring-up', desired: { ...wanted, spec } }]);
    }
    const phases = () => runs.locals().map(({ phase }) => phase);
    await rig.until(() => phases().every((phase) => phase === 'ready'), 'all are ready');
    lost.set('GPU-1', 'it fell off the bus');
    await rig.until(() => phases().includes('ended'), 'one ends');
    assert.deepEqual(phases(), ['ended', 'ready', 'ready']);
    const [first] = runs.locals();
    assert.equal(first?.end?.reason, 'run_lost_its_gpu');
    assert.equal(first?.end?.details.why, 'it fell off the bus');
    await rig.clock.advance(60_000);
    assert.deepEqual(phases(), ['ended', 'ready', 'ready']);
  } finally {
    await runs.leave();
    rig.close();
  }
});
