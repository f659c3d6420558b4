/**
 * The command that serves one model, for both forms of the engine, and how to ask whether it
 * answers.
 *
 * Invariants: pure; the environment is whole and small (llama-server reads settings from
 * variables); only the endpoint's name, sizes and paths inside the sandbox stand in the argv.
 */
import { basename } from 'node:path';
import type { Engine, EngineCommand, EngineOrder, Readiness } from '../runtime.ts';
import { type Settings, settingsFor, settingsNotes } from './settings.ts';

/** The socket of the port `api`, where the drivers look for it. */
const socket = '/run/einsora/api.sock';
const model_folder = '/model';

export const readiness: Readiness = {
  health_path: '/health',
  metrics_path: '/metrics',
  // Embeddings first: one that only writes says at once that it has none, and one that is no writer
  // must not be made to write.
  answers: [
    {
      path: '/v1/embeddings',
      body: (model) => ({ model, input: 'Hello', encoding_format: 'base64' }),
    },
    {
      path: '/v1/completions',
      body: (model) => ({ model, prompt: 'Hello', max_tokens: 1, stream: false }),
    },
  ],
};

export function engineCommand(engine: Engine, order: EngineOrder): EngineCommand {
  const settings = settingsFor(order);
  const model = modelMounts(order);
  const args =
    engine.dialect === 'xllamacpp'
      ? [scriptSettings(order, settings, model.target)]
      : serverArguments(engine, order, settings, model.target);
  return {
    argv: [...engine.program, ...args],
    env: { HOME: '/tmp', LC_ALL: 'C', PATH: '/usr/bin:/bin' },
    mounts: [...engine.mounts, ...model.mounts],
    ports: ['api'],
    notes: [engine.label, ...settingsNotes(settings)],
  };
}

/** A whole file has one name in the sandbox; the engine finds the parts of a split one by theirs. */
function modelMounts({ model_path, model_parts = [] }: EngineOrder) {
  const split = model_parts.length > 0;
  const nameOf = (path: string) => `${model_folder}/${split ? basename(path) : 'model.gguf'}`;
  const mounts = [model_path, ...model_parts].map((source) => ({
    ...{ source, target: nameOf(source), writable: false },
  }));
  return { target: nameOf(model_path), mounts };
}

/** What serve.py reads. */
function scriptSettings(order: EngineOrder, settings: Settings, model: string): string {
  return JSON.stringify({ model, socket, alias: order.spec.name, ...settings });
}

/** The whole text of a slot is one batch: models that look both ways cannot do with parts. */
function poolingArguments({ pooling, context_tokens, parallel }: Settings): string[] {
  if (pooling === null) return [];
  const batch = String(context_tokens / parallel);
  return [
    ...[pooling === 'rank' ? '--reranking' : '--embedding', '--pooling', pooling],
    ...['--batch-size', batch, '--ubatch-size', batch],
  ];
}

function serverArguments(
  engine: Engine,
  order: EngineOrder,
  settings: Settings,
  model: string,
): string[] {
  const sometimes: [flag: string, ...values: string[]][] = [
    ['--threads-http', String(settings.http_threads)],
    ['--cache-ram', String(settings.prompt_cache_mib)],
    engine.flags.includes('--no-ui') ? ['--no-ui'] : ['--no-webui'],
    ['--no-slots'],
    // How far it gets is told by nothing else.
    ['--metrics'],
    ['--offline'],
    ['--cors-origins', 'localhost'],
    ['--no-kv-unified'],
    ['--fit', 'off'],
    ...(engine.on_gpu === true ? [] : [['--device', 'none'] as [string, string]]),
    ['--jinja'],
  ];
  return [
    ...['--model', model, '--host', socket, '--alias', order.spec.name],
    ...['--ctx-size', String(settings.context_tokens), '--parallel', String(settings.parallel)],
    ...['--threads', String(settings.threads)],
    ...['--gpu-layers', engine.on_gpu === true ? 'all' : '0'],
    ...poolingArguments(settings),
    ...sometimes.filter(([flag]) => engine.flags.includes(flag)).flat(),
  ];
}
