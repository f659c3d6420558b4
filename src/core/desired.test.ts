/**
 * Desired state: the same rows give the same bytes, and nothing that ended is asked to run.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type DesiredSource, desiredRuns } from './desired.ts';

const spec = (more: object) =>
  JSON.stringify({
    kind: 'endpoint',
    model: 'smollm2-135m',
    model_params: {},
    cpu_millis: 1000,
    memory_bytes: 2 ** 31,
    ...more,
  });
const anyRow: fc.Arbitrary<DesiredSource> = fc.record({
  workload_id: fc.string({ minLength: 26, maxLength: 26 }),
  replica: fc.nat(3),
  run_epoch: fc.integer({ min: 1, max: 99 }),
  driver: fc.constantFrom('linux-native', 'sim'),
  driver_as: fc.constantFrom(null, 'libvirt'),
  wanted: fc.constantFrom('run', 'park', 'remove'),
  intent: fc.constantFrom('running', 'stopped', 'deleted'),
  proven_at: fc.option(fc.nat(), { nil: null }),
  ended_at: fc.option(fc.nat(), { nil: null }),
  name: fc.string(),
  spec: fc.constantFrom(
    spec({}),
    spec({ model_params: { context_length: 512, parallel: 2 } }),
    spec({ kind: 'vm', model: null }),
    spec({ kind: 'notebook', model: null, image_id: 'jupyter', env: { A: { secret: 'a' } } }),
  ),
  tenant_id: fc.constantFrom('ada', 'bob'),
  owner_tenant_id: fc.constantFrom('ada', 'bob'),
  sharing: fc.constantFrom('private', 'invite-only', 'community'),
  is_guest: fc.constantFrom(0, 1),
  gpu_uuids: fc.constantFrom('', 'GPU-1', 'GPU-1,GPU-2'),
});

function always(check: (rows: DesiredSource[]) => void): void {
  fc.assert(fc.property(fc.array(anyRow, { maxLength: 8 }), check), { seed: 10, numRuns: 500 });
}

test('the same rows give the same bytes, in the order of the rows', () => {
  always((rows) => {
    const copy = JSON.parse(JSON.stringify(rows)) as DesiredSource[];
    assert.equal(JSON.stringify(desiredRuns(rows)), JSON.stringify(desiredRuns(copy)));
    assert.deepEqual(
      desiredRuns(rows).map((run) => run.workload_id),
      rows.map((row) => row.workload_id),
    );
  });
});

test('rows are only looked at', () => {
  always((rows) => {
    const before = JSON.stringify(rows);
    desiredRuns(rows);
    assert.equal(JSON.stringify(rows), before);
  });
});

test("what ended, or is not the owner's on a weak driver, is never asked to run", () => {
  always((rows) => {
    desiredRuns(rows).forEach((run, index) => {
      const row = rows[index];
      if (row === undefined) return;
      const is_owner = row.tenant_id === row.owner_tenant_id;
      if (row.ended_at !== null || !is_owner) assert.notEqual(run.action, 'run');
      else assert.equal(run.action, row.wanted);
      assert.equal(run.begun, row.proven_at !== null);
      assert.equal(run.over, row.ended_at !== null);
    });
  });
});

const sizes = ['cpu_millis', 'memory_bytes'];
const any = ['kind', 'name', 'image_id', 'accelerator'];
const endpoint = [...any, 'model', 'context_length', 'parallel', ...sizes];
const gpu_keys = ['gpu_uuids', 'shares_gpu'];
const notebook = [...any, 'command', 'env', ...sizes, 'disk_bytes'];

test('only what is to run is told what to run, and never a secret or a tenant', () => {
  always((rows) => {
    for (const run of desiredRuns(rows)) {
      if (run.action !== 'run') assert.equal(run.spec, null);
      assert.equal(run.secrets, null);
      const keys = Object.keys(run.spec ?? {}).filter((key) => !gpu_keys.includes(key));
      const known = run.spec === null ? [] : run.spec.kind === 'endpoint' ? endpoint : notebook;
      assert.deepEqual(keys, known);
    }
  });
});

test('a run that is to go on is told which GPUs are its own, and no other run is', () => {
  always((rows) => {
    desiredRuns(rows).forEach(({ spec }, index) => {
      const held = rows[index]?.gpu_uuids ?? '';
      if (spec === null) return;
      assert.deepEqual(spec.gpu_uuids, held === '' ? undefined : held.split(','));
    });
  });
});

test('what a workload keeps goes only with the runs of one that is to be deleted', () => {
  always((rows) => {
    desiredRuns(rows).forEach((run, index) => {
      const row = rows[index];
      const keeps = row !== undefined && !row.spec.includes('endpoint');
      const is_gone = row?.intent === 'deleted' && run.action === 'remove';
      assert.equal(run.erase, is_gone && keeps);
    });
  });
});
