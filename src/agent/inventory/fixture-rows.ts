/**
 * A line of the table of GPU situations, as the tests of probes check it: what is there, and the
 * report, the sentence and the command that have to come of it.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gpuSchema } from '../../contract/gpus.ts';
import { isReasonCode } from '../../core/reasons.ts';
import { type engine, look } from './fixture-gpus.ts';
import type { FixtureMachine } from './fixture-machine.ts';

export type Row = {
  when: string;
  machine: FixtureMachine;
  docker?: ReturnType<typeof engine> | null;
  /** Of the first GPU. */
  state: string;
  codes: string[];
  usable_by?: string[];
  says: RegExp;
  fix?: RegExp;
};

/** What is said of a GPU that is well, on a machine that could give it to virtual machines. */
export const passthrough = ['gpu_not_dedicated'];

export function testRows(rows: readonly Row[]): void {
  for (const row of rows) {
    test(`where ${row.when}, the GPU is ${row.state}`, async () => {
      const { gpus, findings } = await look(row.machine, row.docker);
      const [gpu] = gpus;
      assert.ok(gpu);
      assert.deepEqual(gpuSchema.parse(gpu), gpu);
      assert.deepEqual(
        [gpu.state, gpu.reasons.map(({ code }) => code), gpu.usable_by],
        [row.state, row.codes, row.usable_by ?? []],
      );
      const first = gpu.reasons[0] ?? { message: '', fix: null };
      assert.match(first.message || ' ', row.says);
      if (row.fix !== undefined) assert.match(first.fix ?? '', row.fix);
      for (const { code, message } of gpu.reasons) {
        assert.ok(isReasonCode(code), code);
        assert.doesNotMatch(message, /\{|\bit it\b|undefined/);
      }
      assert.ok(findings.length > 0);
      for (const one of findings)
        assert.ok(one.status === 'ok' || one.fix !== null || one === findings[0]);
    });
  }
}
