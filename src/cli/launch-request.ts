/**
 * What a launch sends: nothing that was not asked for, files by their content or absolute path.
 *
 * Invariants: what is malformed is a usage error that names the option; a value that was read from
 * a file or an option is in the request alone, never in what is printed of it.
 */
import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { shown_value } from '../contract/workload-extras.ts';
import type { Launch } from '../contract/workloads.ts';
import { findModel } from '../core/catalog.ts';
import type { EnvValue, Kind } from '../core/workload.ts';
import { usageError } from './cli-error.ts';

export type RequestOptions = {
  name?: string;
  class?: string;
  /** The same, by its longer name. */
  gpuClass?: string;
  gpus?: number;
  shareGpu?: boolean;
  accelerator?: 'cpu' | 'nvidia' | 'apple';
  contextLength?: number;
  parallel?: number;
  replicas?: number;
  image?: string;
  /** `NAME=value` or `NAME=secret:stored-name`. */
  env?: string[];
  envFile?: string[];
  /** Files of public keys. */
  sshKey?: string[];
  /** Milliseconds. */
  idle?: number;
  /** Bytes. */
  disk?: number;
  memory?: number;
  /** Cores. */
  cpu?: number;
  machine?: string;
  region?: string;
  /** `class:NAME`, `cpu`, `model:NAME`, …, in order. */
  fallback?: string[];
  /** Milliseconds. */
  fallbackAfter?: number;
  return?: boolean;
};

const file_bytes = 256 * 1024;

export function launchRequest(
  cwd: string,
  kind: Kind,
  asked: { model?: string | undefined; command?: string[] },
  options: RequestOptions,
): Launch {
  const { model, command = [] } = asked;
  const { contextLength, parallel } = options;
  const env = variables(cwd, options);
  const keys = (options.sshKey ?? []).map((path) => readText(cwd, path, '--ssh-key').trim());
  const model_params = present({ context_length: contextLength, parallel });
  return {
    kind,
    ...present({
      name: options.name,
      model: model === undefined ? undefined : modelSource(cwd, model),
      model_params: Object.keys(model_params).length === 0 ? undefined : model_params,
      replicas: options.replicas,
      accelerator: options.accelerator,
      gpu_class: classOf(options),
      gpu_count: options.gpus,
      share_device: options.shareGpu,
      image_id: options.image,
      command: command.length === 0 ? undefined : command,
      env: Object.keys(env).length === 0 ? undefined : env,
      ssh_public_key: keys.length === 0 ? undefined : keys.join('\n'),
      idle_policy: options.idle === undefined ? undefined : { after_ms: options.idle },
      cpu_millis: options.cpu === undefined ? undefined : Math.round(options.cpu * 1000),
      memory_bytes: options.memory,
      disk_bytes: options.disk,
      machine: options.machine,
      region: options.region,
      ...fallbackAsk(cwd, options),
    }),
  };
}

function classOf({ class: name, gpuClass }: RequestOptions): string | undefined {
  if (name === undefined || gpuClass === undefined || name === gpuClass) return name ?? gpuClass;
  throw usageError('--class and --gpu-class name two classes: give one');
}

function fallbackAsk(cwd: string, options: RequestOptions) {
  const { fallback, fallbackAfter } = options;
  if (fallback === undefined) {
    if (fallbackAfter !== undefined) throw usageError('--fallback-after needs a --fallback');
    if (options.return) throw usageError('--return needs a --fallback');
    return {};
  }
  return {
    fallback: fallbackSteps(cwd, fallback),
    fallback_after: fallbackAfter === undefined ? undefined : Math.round(fallbackAfter),
    fallback_return: options.return ? true : undefined,
  };
}

/** A model's file in one of them by its absolute path. */
export function fallbackSteps(cwd: string, steps: readonly string[]): string[] {
  const model = /^model:(?=.)/;
  return steps.map((step) =>
    model.test(step) ? `model:${modelSource(cwd, step.replace(model, ''))}` : step,
  );
}

/** A request as it may be printed. */
export function shownRequest({ env, ...request }: Launch): Launch {
  if (env === undefined) return request;
  const shown = Object.entries(env).map(([name, value]) => [
    name,
    typeof value === 'string' ? shown_value : value,
  ]);
  return { ...request, env: Object.fromEntries(shown) };
}

/** Those of the files first, those of the options over them. */
function variables(cwd: string, { env = [], envFile = [] }: RequestOptions) {
  const lines = envFile.flatMap((path) =>
    readText(cwd, path, '--env-file')
      .split(/\r?\n/)
      .map((line) => line.trim())
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => ({ line, from: `--env-file ${path}` })),
  );
  const all = [...lines, ...env.map((line) => ({ line, from: '--env' }))];
  return Object.fromEntries(all.map(({ line, from }) => variable(line, from)));
}

function variable(line: string, from: string): [string, EnvValue] {
  const match = /^([A-Za-z_][A-Za-z0-9_]*)=(.*)$/s.exec(line);
  const [, name, value = ''] = match ?? [];
  // What stands there may be a secret: it is not repeated.
  if (name === undefined) throw usageError(`${from}: give NAME=value or NAME=secret:stored-name`);
  const secret = /^secret:(.*)$/s.exec(value)?.[1];
  return [name, secret === undefined ? value : { secret }];
}

function readText(cwd: string, path: string, option: string): string {
  try {
    const bytes = readFileSync(resolve(cwd, path));
    if (bytes.length <= file_bytes) return bytes.toString('utf8');
  } catch {
    throw usageError(`${option}: ${path} cannot be read`);
  }
  throw usageError(`${option}: ${path} is too large`);
}

/** A name of the catalog and a URL stay; what looks like a file, or is one, becomes absolute. */
function modelSource(cwd: string, model: string): string {
  if (findModel(model) !== null || /^[a-z][a-z0-9+-]*:/i.test(model)) return model;
  if (/^(?:www\.)?(?:hf\.co|huggingface\.co)\//i.test(model)) return model;
  const looks_like_file = /^\.{0,2}\//.test(model) || model.endsWith('.gguf');
  return looks_like_file || existsSync(resolve(cwd, model)) ? resolve(cwd, model) : model;
}

type Present<T> = { [Key in keyof T]?: Exclude<T[Key], undefined> };

/** Only what was given. */
function present<T extends object>(fields: T): Present<T> {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given) as Present<T>;
}
