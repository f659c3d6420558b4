import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ExecResult } from './exec.ts';
import { clientEnv, readFailure } from './wheel-client.ts';

function said(stderr: string, code: number | null = 1, signal: string | null = null): ExecResult {
  return { outcome: 'exited', code, signal, stdout: '', stderr };
}

test('a client gets its own settings and nothing else of the environment', () => {
  const env = clientEnv({
    ...{ PATH: '/usr/bin', HOME: '/root', PIP_INDEX_URL: 'x', UV_INDEX_URL: 'y' },
    ...{ SSL_CERT_FILE: 'c', https_proxy: 'p', PIP_TARGET: '/elsewhere', PIP_USER: '1' },
    ...{ AWS_SECRET_ACCESS_KEY: 's', EINSORA_TOKEN: 't', PYTHONPATH: '/x' },
  });
  assert.deepEqual(env, {
    ...{ PATH: '/usr/bin', HOME: '/root', PIP_INDEX_URL: 'x', UV_INDEX_URL: 'y' },
    ...{ SSL_CERT_FILE: 'c', https_proxy: 'p', PIP_USER: '0', PIP_REQUIRE_VIRTUALENV: '0' },
  });
});

test('what pip and uv say is told apart', () => {
  const code = (text: string) => readFailure(said(text)).code;
  assert.equal(code('ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM'), 'download_corrupt');
  assert.equal(code('error: x\n  cause: Hash mismatch for `a==1`'), 'download_corrupt');
  assert.equal(code('OSError: [Errno 28] No space left on device'), 'disk_full');
  assert.equal(code('cause: No space left on device (os error 28)'), 'disk_full');
  assert.equal(code('ERROR: No matching distribution found for a==1'), 'download_failed');
});

test('a silent registry is said plainly, and a password is not repeated', () => {
  const why = (result: ExecResult) => readFailure(result).why;
  const retrying = 'WARNING: Retrying (Retry(total=4)) after connection broken\nERROR: none';
  assert.equal(why(said(retrying)), 'the package registry did not answer');
  const secret = said('\u001b[31mERROR: 403 for https://me:hunter2@mirror/simple\u001b[0m');
  assert.equal(why(secret), '403 for https://mirror/simple');
  assert.equal(why(said('', null, 'SIGKILL')), 'the package client was ended by SIGKILL');
});
