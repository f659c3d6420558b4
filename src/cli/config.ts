/**
 * Where things are and what the environment says: the only reader of the process environment.
 *
 * Invariants: all paths are absolute; a flag wins over an environment variable, and that over the
 * system's custom place; the database's address holds a password, so it is no flag and never
 * printed as it is; package clients get only the variables that they need, never the rest.
 */
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { Secret } from '../lib/secret.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

export type Config = {
  data_dir: string;
  /** True where `--data-dir` was given: commands that we suggest then carry it too. */
  data_dir_given: boolean;
  /** True where a data folder was named, by flag or variable: its own control plane is meant. */
  is_local: boolean;
  /** The context that was named, by flag or variable; null where none was, or a data folder was. */
  context_name: string | null;
  /** True where `--context` was given: commands that we suggest then carry it too. */
  context_given: boolean;
  home_dir: string;
  /** The user's own settings: the control planes that they signed in to. */
  config_dir: string;
  /** Downloaded tools and models; may be shared between data folders. */
  cache_dir: string;
  /** Of the Postgres database that `up` uses in place of a file; null for the file. */
  database_url: Secret | null;
  /** Where the Docker Engine listens, as the docker command would read it; null for the usual. */
  docker_host: string | null;
  /** EINSORA_DEV: machines may be made up. */
  dev: boolean;
  log_level: string;
  /** How long completion waits for names. */
  completion_ms: number;
  /** False where NO_COLOR is set or the terminal is dumb. Colours need a terminal besides. */
  color: boolean;
  /** False where the terminal is dumb: a line cannot be rewritten in place. */
  can_rewrite: boolean;
};

/** The context of this machine's own control plane, which signs in by its data folder. */
export const local_context = 'local';

const log_levels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'];

/** Reads the configuration once, at start. */
export function loadConfig(
  options: { data_dir?: string | undefined; context?: string | undefined } = {},
  env: Environment = process.env,
  system: { platform: string; home: string } = { platform: process.platform, home: homedir() },
): Config {
  const given = nonEmpty(options.data_dir);
  const chosen = chooseContext({ ...options, data_dir: given }, env);
  const data_dir = resolve(given ?? nonEmpty(env.EINSORA_DATA_DIR) ?? customPlace(env, system));
  const cache_dir = nonEmpty(env.EINSORA_CACHE_DIR);
  const database_url = nonEmpty(env.EINSORA_DATABASE_URL);
  const log_level = env.EINSORA_LOG?.toLowerCase() ?? '';
  return {
    data_dir,
    data_dir_given: given !== null,
    ...chosen,
    home_dir: system.home,
    config_dir: configPlace(env, system),
    cache_dir: cache_dir === null ? join(data_dir, 'cache') : resolve(cache_dir),
    database_url: database_url === null ? null : new Secret(database_url),
    docker_host: nonEmpty(env.DOCKER_HOST),
    dev: ['1', 'true', 'yes'].includes(env.EINSORA_DEV?.toLowerCase() ?? ''),
    log_level: log_levels.includes(log_level) ? log_level : 'info',
    completion_ms: Math.min(10_000, Number(nonEmpty(env.EINSORA_COMPLETION_MS) ?? 150) || 150),
    color: nonEmpty(env.NO_COLOR) === null && env.TERM !== 'dumb',
    can_rewrite: env.TERM !== 'dumb',
  };
}

/** The environment for package clients (pip, uv, curl): what they need, and no secret of others. */
export function packageEnv(env: Environment = process.env): Record<string, string> {
  return pick(env, (name) => package_names.has(name) || package_prefixes.test(name));
}

export type SourceSettings = {
  /** Of the model hub, without a slash at its end. */
  hub_url: string;
  /** Origins that the operator vouches for: models may come from them whatever their address. */
  trusted_origins: string[];
  /** What of it cannot be read. */
  problem: string | null;
};

const custom_hub = 'https://huggingface.co';

/** Where models may be fetched from. A hub that is named is vouched for. */
export function sourceSettings(env: Environment = process.env): SourceSettings {
  const named = nonEmpty(env.EINSORA_HUB_URL);
  const listed = (env.EINSORA_MODEL_ORIGINS ?? '').split(',').map((text) => text.trim());
  const texts = [named ?? '', ...listed].filter((text) => text !== '');
  const bad = texts.find((text) => !/^https?:\/\/[^/?#@]+\/?$/.test(text) || !URL.canParse(text));
  if (bad !== undefined) {
    const shown = bad.replace(/\/\/[^/]*@/, '//');
    const problem = `${shown} is no origin such as https://models.example`;
    return { hub_url: custom_hub, trusted_origins: [], problem };
  }
  const trusted_origins = texts.map((text) => new URL(text).origin);
  const hub_url = named === null ? custom_hub : new URL(named).origin;
  return { hub_url, trusted_origins, problem: null };
}

/** The user's whole environment, for a program that is theirs as much as this one: ssh. */
export function wholeEnv(env: Environment = process.env): Record<string, string> {
  return pick(env, () => true);
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

/** A flag wins over a variable, and a data folder over a context that is named the same way. */
function chooseContext(
  options: { data_dir: string | null; context?: string | undefined },
  env: Environment,
) {
  const flag = nonEmpty(options.context);
  const by_variable = nonEmpty(env.EINSORA_DATA_DIR) === null;
  const variable = by_variable ? nonEmpty(env.EINSORA_CONTEXT) : null;
  if (options.data_dir !== null) {
    return { is_local: true, context_name: null, context_given: false };
  }
  const name = flag ?? variable;
  const is_local = name === local_context || (name === null && !by_variable);
  const context_name = is_local ? null : name;
  return { is_local, context_name, context_given: flag !== null };
}

function configPlace(env: Environment, system: { platform: string; home: string }): string {
  if (system.platform === 'darwin') return customPlace(env, system);
  return join(nonEmpty(env.XDG_CONFIG_HOME) ?? join(system.home, '.config'), 'einsora');
}

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
