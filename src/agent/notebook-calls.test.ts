/**
 * What a notebook's run is told of the gateway.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { createAgentRig, desire, runOf } from '../../test/lib/agent-rig.ts';
import type { NotebookSpec, RunSecrets } from '../contract/sync.ts';
import type { EnvValue } from '../core/workload.ts';
import type { RunSpec } from '../drivers/driver.ts';
import { reconcile } from './reconcile.ts';
import { createRuns } from './runs.ts';

const key = 'ept_the-key-of-this-run';

/** The environment of a notebook's run, begun with these variables and secrets. */
async function environmentOf(
  env: Record<string, EnvValue>,
  secrets: RunSecrets,
): Promise<Record<string, string>> {
  const specs: RunSpec[] = [];
  const rig = createAgentRig({
    wrap: (sim) => ({
      ...sim,
      start(spec, signal) {
        specs.push(spec);
        return sim.start(spec, signal);
      },
    }),
  });
  const runs = createRuns({ ...rig.deps, changed: () => {} });
  const spec: NotebookSpec = {
    ...{ kind: 'notebook', name: 'lab', image_id: 'jupyter', accelerator: null, command: [], env },
    ...{ cpu_millis: 1000, memory_bytes: 2 ** 30, disk_bytes: 2 ** 30 },
  };
  try {
    const desired = [{ ...desire(runOf(1)), spec, secrets }];
    runs.carryOut(reconcile(desired, runs.facts()));
    await rig.until(() => specs.length > 0, 'it is begun');
    for (const one of readdirSync(rig.folder, { recursive: true, withFileTypes: true })) {
      if (!one.isFile()) continue;
      const text = readFileSync(join(one.parentPath, one.name), 'latin1');
      assert.ok(!text.includes(key), `${one.name} has it`);
    }
    return specs[0]?.env ?? {};
  } finally {
    await runs.leave();
    rig.close();
  }
}

const secrets: RunSecrets = { site_token: 'a-token', gateway_key: key, values: { mine: 'a' } };

test('a cell finds its endpoints by what clients read, and no file has the key', async () => {
  const env = await environmentOf({}, secrets);
  assert.equal(env.OPENAI_BASE_URL, 'http://localhost:4600/v1');
  assert.equal(env.OPENAI_API_KEY, key);
});

test('a user who names a place or a key of their own gets neither of ours', async () => {
  const place = await environmentOf({ OPENAI_BASE_URL: 'https://example.test/v1' }, secrets);
  assert.equal(place.OPENAI_BASE_URL, 'https://example.test/v1');
  assert.equal(place.OPENAI_API_KEY, undefined);
  const own = await environmentOf({ OPENAI_API_KEY: { secret: 'mine' } }, secrets);
  assert.equal(own.OPENAI_BASE_URL, undefined);
  assert.equal(own.OPENAI_API_KEY, 'a');
});

test('a control plane that gives no key is no reason not to begin', async () => {
  const env = await environmentOf({}, { site_token: 'a-token', values: {} });
  assert.equal(env.OPENAI_BASE_URL, undefined);
  assert.equal(env.JUPYTER_TOKEN, 'a-token');
});
