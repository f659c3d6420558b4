/**
 * Images pulled by a real engine from a registry that breaks.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DriverError } from '../../src/drivers/driver.ts';
import { until, untilEnded } from '../contracts/driver.ts';
import { dockerHarness } from '../lib/docker-harness.ts';
import { imageRegistry } from '../lib/image-registry.ts';
import { needs } from '../lib/parts.ts';

const real = needs('docker');
const never = new AbortController().signal;
const hasty = { silence_ms: 1500, waits_ms: [50] };
const code =
  (wanted: string, text = /./) =>
  (error: unknown) =>
    error instanceof DriverError && error.code === wanted && text.test(error.message);

test(
  'an image is pulled once for all who wait, with its bytes told, and found the next time',
  real,
  async () => {
    await using harness = await dockerHarness();
    await using registry = await imageRegistry();
    const { reference } = registry;
    const told: [number, number | null][] = [];
    const bring = (onProgress = (_: number, __: number | null) => {}) =>
      harness.driver.bringImage?.(reference, onProgress, never);
    const [one, two] = await Promise.all([bring((...bytes) => told.push(bytes)), bring()]);
    assert.equal(registry.layers_asked, 1);
    assert.equal(one, `${reference} (${registry.digest.slice(0, 19)})`);
    assert.equal(two, one);
    const [done, total] = told.at(-1) ?? [];
    assert.ok(done !== undefined && done > 2_000_000 && done === total, String(told));
    await bring();
    assert.equal(registry.layers_asked, 1);
    await harness.docker('image', 'rm', '-f', reference);
  },
);

test('a run keeps the digest of its image in its labels', real, async () => {
  await using harness = await dockerHarness();
  await using registry = await imageRegistry();
  const spec = harness.shell('', { image: registry.reference, argv: ['/random'] });
  await harness.driver.start(spec, never);
  const name = `ein-${spec.run.workload_id}.0.1`;
  const labels = JSON.parse(await harness.docker('inspect', '-f', '{{json .Config.Labels}}', name));
  assert.equal(labels['dev.einsora.digest'], registry.digest);
  assert.equal(labels['dev.einsora.image'], registry.reference);
  // What it begins with is no program: it ends at once, and says why.
  const ended = await untilEnded(harness, spec.run);
  assert.notEqual(ended.exit?.code ?? 0, 0);
  assert.match((await harness.driver.logs(spec.run, 0, 1000)).text, /exec \/random failed/);
  await harness.driver.stop(spec.run, 'remove', 0);
  await harness.docker('image', 'rm', '-f', registry.reference);
});

test(
  'a pull that is cut in the middle, or corrupt, is tried again and then told',
  real,
  async () => {
    await using harness = await dockerHarness();
    await using registry = await imageRegistry();
    const driver = harness.openWith({ patience: hasty });
    const bring = () => driver.bringImage?.(registry.reference, () => {}, never) ?? assert.fail();
    registry.mode = 'corrupt';
    await assert.rejects(bring(), code('image_pull_failed', /2 tries.*verification failed/));
    registry.mode = 'cut';
    await assert.rejects(bring(), code('image_pull_failed', /told nothing|broke off/));
    registry.mode = 'ok';
    await until(harness.clock, 'it comes after all', () => bring().catch(() => null));
    await harness.docker('image', 'rm', '-f', registry.reference);
  },
);

test(
  'a pull that goes silent is given up, and one that is called off ends at once',
  real,
  async () => {
    await using harness = await dockerHarness();
    await using registry = await imageRegistry();
    registry.mode = 'stall';
    const driver = harness.openWith({ patience: { silence_ms: 1000, waits_ms: [] } });
    const silent = driver.bringImage?.(registry.reference, () => {}, never);
    await assert.rejects(
      silent ?? assert.fail(),
      code('image_pull_failed', /told nothing for 1 s/),
    );
    const cancel = new AbortController();
    const begun = harness.clock.monotonic();
    const starting = harness.driver.start(
      harness.shell('true', { image: registry.reference }),
      cancel.signal,
    );
    cancel.abort();
    await assert.rejects(starting, code('start_failed', /called off/));
    assert.ok(harness.clock.monotonic() - begun < 1000);
    assert.deepEqual(await harness.driver.observe(), []);
  },
);

test(
  'an image that is not there, is private, or was not built is told by name, without retries',
  real,
  async () => {
    await using harness = await dockerHarness();
    await using registry = await imageRegistry();
    const patience = { silence_ms: 5000, waits_ms: [60_000] };
    const driver = harness.openWith({ patience });
    const start = (image: string) => driver.start(harness.shell('true', { image }), never);
    const nothing = registry.reference.replace(':1', ':2').replace('einsora/test:1', 'einsora/x:1');
    await assert.rejects(start(`${nothing.replace(/:\d$/, '')}:none`), code('image_not_found'));
    registry.mode = 'denied';
    await assert.rejects(start(registry.reference), code('image_not_found', /private/));
    await assert.rejects(start('localhost/einsora/none:1'), code('image_not_built'));
    await assert.rejects(start('Not A Name'), code('image_refused'));
    assert.deepEqual(await driver.observe(), []);
  },
);

test(
  'a private image comes for who signs in, and is refused to everybody else with what helps',
  real,
  async () => {
    await using harness = await dockerHarness();
    await using registry = await imageRegistry();
    registry.mode = 'private';
    const { reference } = registry;
    const host = reference.split('/')[0] ?? '';
    const bring = (password: string | null) => {
      const sign_in = password === null ? null : { registry: host, user: 'me', password };
      return harness.driver.bringImage?.(reference, () => {}, never, sign_in) ?? assert.fail();
    };
    await assert.rejects(bring(null), code('image_not_found', /private/));
    const refused = await bring('wrong').catch((error: unknown) => error);
    assert.ok(refused instanceof DriverError && refused.code === 'image_not_found');
    assert.equal(refused.details.secret, `registry-${host.replaceAll(/[.:]/g, '-')}`);
    assert.doesNotMatch(JSON.stringify([refused.message, refused.details]), /wrong/);
    // Who may, does not wait for who may not.
    const [right, wrong] = await Promise.allSettled([bring('open'), bring('wrong')]);
    assert.deepEqual([right.status, wrong.status], ['fulfilled', 'rejected']);
    await harness.docker('image', 'rm', '-f', reference);
  },
);
