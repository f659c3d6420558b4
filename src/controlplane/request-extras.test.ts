/**
 * What a launch says beside its model and size: what a kind cannot use is refused, and nothing that
 * came in as a value is shown.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EinsoraError } from '../contract/errors.ts';
import type { Launch } from '../contract/workloads.ts';
import { sentenceOf } from '../core/reasons.ts';
import { secretNames, shownSpec } from './request-extras.ts';
import { completeSpec } from './request-spec.ts';

const gib = 2 ** 30;
const ask = (asked: Partial<Launch> & Pick<Launch, 'kind'>) => completeSpec(asked, () => null);

function refused(asked: Parameters<typeof ask>[0]): string {
  try {
    ask(asked);
  } catch (error) {
    if (error instanceof EinsoraError) return sentenceOf(error.code, error.details);
    throw error;
  }
  return 'accepted';
}

test('a notebook without an image is JupyterLab, an instance is Debian, and both say so', () => {
  const notebook = ask({ kind: 'notebook' });
  assert.equal(notebook.spec.image_id, 'jupyter');
  assert.ok(notebook.defaults.includes('image_id'));
  assert.equal(notebook.spec.disk_bytes, 10 * gib);
  assert.equal(ask({ kind: 'instance' }).spec.image_id, 'debian');
  const given = ask({ kind: 'instance', image_id: 'python', disk_bytes: gib });
  assert.deepEqual([given.spec.image_id, given.spec.disk_bytes], ['python', gib]);
  assert.ok(!given.defaults.includes('image_id'));
  assert.equal(ask({ kind: 'endpoint', model: 'smollm2-135m' }).spec.image_id, null);
});

test('an image that is none, or is for another kind, is refused with what helps', () => {
  const slip = refused({ kind: 'instance', image_id: 'debain' });
  assert.match(slip, /no image debain in the catalog/);
  const other = refused({ kind: 'instance', image_id: 'jupyter' });
  assert.equal(other, 'The image jupyter is for notebooks, not for instances.');
  assert.match(
    refused({ kind: 'endpoint', model: 'smollm2-135m', image_id: 'someone/x:1' }),
    /is for notebooks and instances/,
  );
  assert.equal(ask({ kind: 'notebook', image_id: 'someone/lab:2' }).spec.image_id, 'someone/lab:2');
});

test('what a kind cannot use is refused, never dropped', () => {
  const endpoint = { kind: 'endpoint', model: 'smollm2-135m' } as const;
  assert.match(refused({ ...endpoint, env: { A: 'b' } }), /env: an endpoint takes none/);
  assert.match(refused({ ...endpoint, disk_bytes: 1 }), /disk_bytes: an endpoint takes none/);
  assert.match(refused({ kind: 'notebook', command: ['x'] }), /command: a notebook takes none/);
  assert.match(
    refused({ kind: 'instance', ssh_public_key: '-----BEGIN OPENSSH PRIVATE KEY-----' }),
    /ssh_public_key is a private key/,
  );
});

test('variables have a limit together', () => {
  const large = 'x'.repeat(16 * 1024);
  const env = Object.fromEntries(Array.from({ length: 7 }, (_, i) => [`V${i}`, large]));
  assert.match(refused({ kind: 'instance', env }), /env: more than/);
});

test('of variables the names are shown, and which secret they take', () => {
  const env = { MODE: 'quiet', TOKEN: { secret: 'hf' }, AGAIN: { secret: 'hf' } };
  const { spec } = ask({ kind: 'notebook', env });
  assert.deepEqual(secretNames(spec.env), ['hf']);
  const shown = shownSpec(spec);
  assert.deepEqual(shown.env, { ...env, MODE: 'REDACTED' });
  assert.ok(!JSON.stringify(shown).includes('quiet'));
});

test('the smallest class that has the cores and the memory asked for is taken', () => {
  assert.equal(ask({ kind: 'instance', cpu_millis: 4000 }).spec.gpu_class, 'cpu-4c-8g');
  assert.equal(ask({ kind: 'instance', memory_bytes: 9 * gib }).spec.gpu_class, 'cpu-4c-16g');
  assert.equal(ask({ kind: 'instance', memory_bytes: 1 }).spec.gpu_class, 'cpu-1c-2g');
  const tiny = { gpu_class: 'cpu-1c-2g', cpu_millis: 3000 };
  assert.equal(
    refused({ kind: 'instance', ...tiny }),
    'cpu-1c-2g has 1 CPU and 2 GiB, less than the 3 CPU and 2 GiB asked for.',
  );
});
