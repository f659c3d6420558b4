import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findImage, images, isImageReference, runtimeFor, runtimesOf, siteOf } from './images.ts';

test('every image has a runtime for each of its kinds, and names are not references', () => {
  for (const { name, kinds, runtimes } of images) {
    assert.ok(runtimes.length > 0, name);
    assert.ok(!isImageReference(name), name);
    for (const kind of kinds) assert.equal(runtimesOf(kind, name), runtimes);
    for (const { reference, form } of runtimes) {
      assert.equal(reference === null, form === 'native', name);
      assert.ok(reference === null || isImageReference(reference), `${reference}`);
    }
  }
});

test('what looks like a reference is one, and a slip of the pen is not', () => {
  const good = [
    ...['debian:13', 'someone/image', 'quay.io/jupyter/scipy-notebook:2026-01-05'],
    ...[`ghcr.io/a/b@sha256:${'0'.repeat(64)}`, 'localhost/einsora/jupyter:1', 'host:5000/a'],
    ...['registry.example.org:8443/Team/x'.toLowerCase(), 'a/b__c:v1.2_3-rc'],
  ];
  const bad = [
    ...['debain', 'Debian:12', 'a/b:', 'a/b@sha256:12', '/a', 'a//b', '-a/b', 'a/b:-x'],
    ...['a b/c', 'http://a/b', 'a/b\n', '../a', 'a/../b', `a/${'b'.repeat(300)}`, ''],
  ];
  for (const text of good) assert.ok(isImageReference(text), text);
  for (const text of bad) assert.ok(!isImageReference(text), text);
});

test('a driver takes the form of an image that it can run', () => {
  assert.equal(runtimeFor('notebook', null, 'linux-native')?.form, 'native');
  assert.equal(runtimeFor('notebook', 'jupyter', 'docker')?.form, 'container');
  assert.equal(runtimeFor('instance', 'debian', 'linux-native'), null);
  assert.equal(runtimeFor('instance', 'someone/image:2', 'docker')?.reference, 'someone/image:2');
  assert.equal(runtimeFor('endpoint', 'someone/image:2', 'docker'), null);
  assert.equal(runtimeFor('endpoint', null, 'linux-native')?.form, 'native');
  assert.equal(runtimeFor('instance', 'jupyter', 'docker'), null);
  assert.equal(findImage('debian')?.title, 'Debian 12');
});

test('only notebooks have a web page of their own', () => {
  assert.deepEqual(siteOf('notebook'), { port: 'web', auth: 'token' });
  assert.equal(siteOf('endpoint'), null);
  assert.equal(siteOf('instance'), null);
});
