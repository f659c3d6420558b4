/**
 * Where things are and what the environment says: the only reader of the process environment.
 *
 * Invariants: all paths are absolute; a flag wins over an environment variable, and that over the
 * system's custom place; package clients get only the variables that they need, never the rest.
 */
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';

export type Environment = Readonly<Record<string, string | undefined>>;

export type Config = {
  data_dir: string;
  /** True where `--data-dir` was given: commands that we suggest then carry it too. */
  data_dir_given: boolean;
  /** Downloaded tools and models; may be shared between data folders. */
  cache_dir: string;
  log_level: string;
  /** False where NO_COLOR is set or the terminal is dumb. Colours need a terminal besides. */
  color: boolean;
  /** False where the terminal is dumb: a line cannot be rewritten in place. */
  can_rewrite: boolean;
};

const log_levels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'];

/** Reads the configuration once, at start. */
export function loadConfig(
  options: { data_dir?: string | undefined } = {},
  env: Environment = process.env,
  system: { platform: string; home: string } = { platform: process.platform, home: homedir() },
): Config {
  const given = nonEmpty(options.data_dir);
  const data_dir = resolve(given ?? nonEmpty(env.EINSORA_DATA_DIR) ?? customPlace(env, system));
  const cache_dir = nonEmpty(env.EINSORA_CACHE_DIR);
  const log_level = env.EINSORA_LOG?.toLowerCase() ?? '';
  return {
    data_dir,
    data_dir_given: given !== null,
    cache_dir: cache_dir === null ? join(data_dir, 'cache') : resolve(cache_dir),
    log_level: log_levels.includes(log_level) ? log_level : 'info',
    color: nonEmpty(env.NO_COLOR) === null && env.TERM !== 'dumb',
    can_rewrite: env.TERM !== 'dumb',
  };
}

/** The environment for package clients (pip, uv, curl): what they need, and no secret of others. */
export function packageEnv(env: Environment = process.env): Record<string, string> {
  return pick(env, (name) => package_names.has(name) || package_prefixes.test(name));
}

/** The environment for the program that opens a browser: the desktop session, and no more. */
export function desktopEnv(env: Environment = process.env): Record<string, string> {
  return pick(env, (name) => desktop_names.test(name));
}

const package_names = new Set([
  'PATH',
  'HOME',
  'LANG',
  'XDG_CACHE_HOME',
  'http_proxy',
  'https_proxy',
  'no_proxy',
  'HTTP_PROXY',
  'HTTPS_PROXY',
  'NO_PROXY',
]);
const package_prefixes = /^(?:PIP|UV|SSL|REQUESTS|CURL)_/;
const desktop_names =
  /^(?:PATH|HOME|USER|LANG|BROWSER|(?:WAYLAND_)?DISPLAY|XAUTHORITY|DBUS_SESSION_.*|XDG_.*)$/;

function customPlace(env: Environment, system: { platform: string; home: string }): string {
  if (system.platform === 'darwin') {
    return join(system.home, 'Library', 'Application Support', 'Einsora');
  }
  const data_home = nonEmpty(env.XDG_DATA_HOME) ?? join(system.home, '.local', 'share');
  return join(data_home, 'einsora');
}

function pick(env: Environment, wanted: (name: string) => boolean): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) {
    if (value !== undefined && wanted(name)) kept[name] = value;
  }
  return kept;
}

/** An empty variable counts as unset, as in most programs. */
function nonEmpty(text: string | undefined): string | null {
  return text === undefined || text === '' ? null : text;
}
