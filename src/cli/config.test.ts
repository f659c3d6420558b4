import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { desktopEnv, loadConfig, packageEnv, sourceSettings } from './config.ts';

const linux = { platform: 'linux', home: '/home/ada' };
const mac = { platform: 'darwin', home: '/Users/ada' };

test('the data folder comes from the flag, then the variable, then the custom place', () => {
  const env = { EINSORA_DATA_DIR: '/srv/e', XDG_DATA_HOME: '/xdg' };
  const of = (given: string | undefined, vars: Record<string, string>, system = linux) =>
    loadConfig({ data_dir: given }, vars, system).data_dir;
  assert.equal(of('/flag', env), '/flag');
  assert.equal(of(undefined, env), '/srv/e');
  assert.equal(of(undefined, { XDG_DATA_HOME: '/xdg' }), '/xdg/einsora');
  assert.equal(of(undefined, {}), '/home/ada/.local/share/einsora');
  assert.equal(of(undefined, {}, mac), '/Users/ada/Library/Application Support/Einsora');
  assert.equal(of('', { EINSORA_DATA_DIR: '' }), '/home/ada/.local/share/einsora');
});

test('paths become absolute, and only the flag counts as given', () => {
  const config = loadConfig({ data_dir: 'here' }, { EINSORA_CACHE_DIR: 'cache' }, linux);
  assert.equal(config.data_dir, `${process.cwd()}/here`);
  assert.equal(config.cache_dir, `${process.cwd()}/cache`);
  assert.equal(config.data_dir_given, true);
  assert.equal(loadConfig({}, { EINSORA_DATA_DIR: '/x' }, linux).data_dir_given, false);
  assert.equal(loadConfig({}, { EINSORA_DATA_DIR: '/x' }, linux).cache_dir, '/x/cache');
});

test('the address of a database comes from the environment alone, and is not printed', () => {
  const url = 'postgres://ada:s3cret@db/einsora';
  const config = loadConfig({}, { EINSORA_DATABASE_URL: url }, linux);
  assert.equal(config.database_url?.reveal(), url);
  assert.doesNotMatch(`${JSON.stringify(config)}${inspect(config)}`, /s3cret/);
  assert.equal(loadConfig({}, { EINSORA_DATABASE_URL: '' }, linux).database_url, null);
});

test('NO_COLOR and a dumb terminal switch colours off', () => {
  assert.equal(loadConfig({}, { TERM: 'xterm' }, linux).color, true);
  assert.equal(loadConfig({}, { TERM: 'xterm', NO_COLOR: '1' }, linux).color, false);
  assert.equal(loadConfig({}, { TERM: 'xterm', NO_COLOR: '1' }, linux).can_rewrite, true);
  assert.equal(loadConfig({}, { TERM: 'dumb' }, linux).can_rewrite, false);
});

test('an unknown log level is the usual one', () => {
  assert.equal(loadConfig({}, { EINSORA_LOG: 'DEBUG' }, linux).log_level, 'debug');
  assert.equal(loadConfig({}, { EINSORA_LOG: 'loud' }, linux).log_level, 'info');
});

test('package clients and the browser get what they need and no secret', () => {
  const env = {
    PATH: '/bin',
    HOME: '/home/ada',
    PIP_INDEX_URL: 'https://mirror.example',
    UV_CACHE_DIR: '/c',
    https_proxy: 'http://p',
    NO_PROXY: 'x',
    DISPLAY: ':0',
    AWS_SECRET_ACCESS_KEY: 'secret',
    HF_TOKEN: 'secret',
    LD_PRELOAD: '/evil.so',
  };
  assert.deepEqual(Object.keys(packageEnv(env)).sort(), [
    'HOME',
    'NO_PROXY',
    'PATH',
    'PIP_INDEX_URL',
    'UV_CACHE_DIR',
    'https_proxy',
  ]);
  assert.deepEqual(desktopEnv(env), { PATH: '/bin', HOME: '/home/ada', DISPLAY: ':0' });
});

test('a named data folder wins over a named context, a flag over a variable', () => {
  const chosen = (
    options: { data_dir?: string; context?: string },
    vars: Record<string, string>,
  ) => {
    const { is_local, context_name, context_given } = loadConfig(options, vars, linux);
    return [is_local, context_name, context_given];
  };
  const both = { EINSORA_DATA_DIR: '/x', EINSORA_CONTEXT: 'lab' };
  assert.deepEqual(chosen({}, {}), [false, null, false]);
  assert.deepEqual(chosen({ context: 'lab' }, {}), [false, 'lab', true]);
  assert.deepEqual(chosen({}, { EINSORA_CONTEXT: 'lab' }), [false, 'lab', false]);
  assert.deepEqual(chosen({}, both), [true, null, false]);
  assert.deepEqual(chosen({ context: 'other' }, both), [false, 'other', true]);
  assert.deepEqual(chosen({ data_dir: '/y', context: 'other' }, both), [true, null, false]);
  assert.deepEqual(chosen({ context: 'local' }, {}), [true, null, true]);
});

test("the user's own settings lie where the system keeps such", () => {
  assert.equal(loadConfig({}, {}, linux).config_dir, '/home/ada/.config/einsora');
  assert.equal(loadConfig({}, { XDG_CONFIG_HOME: '/c' }, linux).config_dir, '/c/einsora');
  const mac = { platform: 'darwin', home: '/Users/ada' };
  const place = '/Users/ada/Library/Application Support/Einsora';
  assert.equal(loadConfig({}, {}, mac).config_dir, place);
});

test('models come from the hub, and from origins that the operator names', () => {
  const custom = { hub_url: 'https://huggingface.co', trusted_origins: [], problem: null };
  assert.deepEqual(sourceSettings({}), custom);
  assert.deepEqual(sourceSettings({ EINSORA_HUB_URL: '', EINSORA_MODEL_ORIGINS: ' ,' }), custom);
  const env = {
    EINSORA_HUB_URL: 'http://Hub.lab:8080/',
    EINSORA_MODEL_ORIGINS: 'https://a.example, http://10.0.0.7:9000/',
  };
  assert.deepEqual(sourceSettings(env), {
    hub_url: 'http://hub.lab:8080',
    trusted_origins: ['http://hub.lab:8080', 'https://a.example', 'http://10.0.0.7:9000'],
    problem: null,
  });
  for (const text of ['hub', 'ftp://x', 'https://u:secret@x', 'https://x/path', 'https://x?y']) {
    const { problem, trusted_origins } = sourceSettings({ EINSORA_MODEL_ORIGINS: text });
    assert.match(problem ?? '', /is no origin/, text);
    assert.doesNotMatch(problem ?? '', /secret/);
    assert.deepEqual(trusted_origins, []);
  }
});
