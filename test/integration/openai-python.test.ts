/**
 * Python's `openai` against the gateway: the checks are in test/lib/openai_sdk.py.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { good_key, startRig } from '../lib/gateway-rig.ts';
import { playScenes } from '../lib/openai-scenes.ts';
import { needs } from '../lib/parts.ts';
import { runPython } from '../lib/python-packages.ts';

const packages = { name: 'openai-3.57.0', packages: ['openai==3.57.0'], deps: true };
const script = join(import.meta.dirname, '../lib/openai_sdk.py');

test("Python's openai, synchronous and not, finds what its users rely on", {
  timeout: 300_000,
  ...needs('python'),
}, async (t) => {
  const rig = await startRig();
  try {
    const scenes = playScenes(rig.upstream);
    const printed = await runPython(packages, script, [`${rig.url}/v1`, good_key]);
    const results = Object.entries(JSON.parse(printed) as Record<string, string | null>);
    assert.ok(results.length >= 10);
    for (const [name, wrong] of results) {
      await t.test(name, () => assert.equal(wrong, null, wrong ?? ''));
    }
    // Each of them twice, and never again by itself; what loads, once more.
    for (const scene of ['bad', 'long', 'odd', 'oops', 'loading']) {
      assert.equal(scenes.asked(scene), 2, scene);
    }
  } finally {
    await rig.close();
  }
});
