/**
 * Runs of the API's fuzz: short for every push, long by night.
 */
import fc from 'fast-check';
import { routes } from '../../src/contract/routes.ts';
import { openApiDocument } from '../../src/controlplane/openapi.ts';
import { callOf, type Document } from './api-calls.ts';
import { type FuzzReport, playCalls } from './api-fuzz.ts';
import { createRig } from './rig.ts';

/** Plays `runs` stories of `calls` calls; says what came of it. A failure names its seed and path. */
export async function fuzzApi(form: {
  spoil?: Parameters<typeof playCalls>[2];
  seed: number;
  runs: number;
  calls: number;
}): Promise<{ missed: string[]; told: string }> {
  const rig = await createRig();
  const document = openApiDocument(rig.api) as unknown as Document;
  await rig.close();
  const story = fc.array(callOf(document), {
    minLength: form.calls,
    maxLength: form.calls,
    size: 'max',
  });
  const report: FuzzReport = {
    asked: 0,
    accepted: 0,
    reached: new Set(),
    slowest_ms: 0,
    slowest: '',
  };
  const property = fc.asyncProperty(story, (calls) => playCalls(calls, report, form.spoil));
  // A story is long: where one fails, its seed says more than hours of making it shorter.
  const options = { seed: form.seed, numRuns: form.runs, endOnFailure: true };
  const { failed, errorInstance, counterexamplePath } = await fc.check(property, options);
  if (failed) {
    const why = errorInstance instanceof Error ? errorInstance.message : 'it failed';
    throw new Error(`seed ${form.seed}, story ${counterexamplePath}: ${why}`, {
      cause: errorInstance,
    });
  }
  const { asked, accepted, reached, slowest_ms, slowest } = report;
  const missed = Object.keys(routes).filter((name) => !reached.has(name));
  const slow = `the slowest took ${Math.round(slowest_ms)} ms: ${slowest}`;
  return {
    missed,
    told: `${asked} calls, ${accepted} accepted; ${slow}; none by ${missed.join()}`,
  };
}
