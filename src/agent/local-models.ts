/**
 * The models of Solo's own machine, put together: the folder of contents, downloads, validator.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../lib/clock.ts';
import { freeBytes } from '../lib/files.ts';
import { describeError, type Log } from '../lib/log.ts';
import type { Random } from '../lib/random.ts';
import { createDownloads } from '../models/download.ts';
import { missingBytes, resolveModel } from '../models/source.ts';
import type { Sources } from '../models/source-plan.ts';
import { createModelStore } from '../models/store.ts';
import { validateModel } from '../models/validate.ts';
import { type AgentModels, createAgentModels } from './models.ts';

export type LocalModelsOptions = {
  cache_dir: string;
  machine_id: string;
  /** `<platform>-<arch>`. */
  platform: string;
  /** For package clients. */
  env: Record<string, string>;
  sources: Sources;
  clock: Clock;
  random: Random;
  log: Log;
};

export function openLocalModels(options: LocalModelsOptions): AgentModels {
  const { cache_dir, machine_id, platform, env, sources, clock, random, log } = options;
  const folder = join(cache_dir, 'models');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const place = { folder, net: sources.net, random };
  const store = createModelStore(place, createDownloads(place));
  store.sweep().catch((error: unknown) => {
    log.warn({ error: describeError(error) }, 'left-overs of models could not be removed');
  });
  return createAgentModels({
    ...{ machine_id, store, clock, log },
    resolve: (model, asker, onProgress, signal) =>
      resolveModel(model, {
        ...{ platform, env, clock, random, onProgress, signal },
        models_folder: folder,
        fetching: { machine_id, store, sources, asker },
      }),
    validate: validateModel,
    builtinFolder: (name) =>
      missingBytes(name, { models_folder: folder, platform }) === 0 ? join(folder, name) : null,
    freeBytes() {
      try {
        return freeBytes(folder);
      } catch {
        return null;
      }
    },
  });
}
