/**
 * The command that serves one model, for both forms of the engine, and how to ask whether it
 * answers.
 *
 * Invariants: pure; the environment is whole and small (llama-server reads settings from
 * variables); only the endpoint's name, sizes and paths inside the sandbox stand in the argv.
 */
import type { Engine, EngineCommand, EngineOrder, Readiness } from '../runtime.ts';
import { type Settings, settingsFor, settingsNotes } from './settings.ts';

/** The socket of the port `api`, where the drivers look for it. */
const socket = '/run/einsora/api.sock';
const model_target = '/model/model.gguf';

export const readiness: Readiness = {
  health_path: '/health',
  answer_path: '/v1/completions',
  answer_body: (model) => ({ model, prompt: 'Hello', max_tokens: 1, stream: false }),
};

export function engineCommand(engine: Engine, order: EngineOrder): EngineCommand {
  const settings = settingsFor(order);
  const args =
    engine.dialect === 'xllamacpp'
      ? [scriptSettings(order, settings)]
      : serverArguments(engine, order, settings);
  return {
    argv: [...engine.program, ...args],
    env: { HOME: '/tmp', LC_ALL: 'C', PATH: '/usr/bin:/bin' },
    mounts: [...engine.mounts, { source: order.model_path, target: model_target, writable: false }],
    ports: ['api'],
    notes: [engine.label, ...settingsNotes(settings)],
  };
}

/** What serve.py reads. */
function scriptSettings(order: EngineOrder, settings: Settings): string {
  return JSON.stringify({ model: model_target, socket, alias: order.spec.name, ...settings });
}

function serverArguments(engine: Engine, order: EngineOrder, settings: Settings): string[] {
  const sometimes: [flag: string, ...values: string[]][] = [
    ['--threads-http', String(settings.http_threads)],
    ['--cache-ram', String(settings.prompt_cache_mib)],
    engine.flags.includes('--no-ui') ? ['--no-ui'] : ['--no-webui'],
    ['--no-slots'],
    ['--offline'],
    ['--cors-origins', 'localhost'],
    ['--no-kv-unified'],
    ['--fit', 'off'],
    ['--device', 'none'],
    ['--jinja'],
  ];
  return [
    ...['--model', model_target, '--host', socket, '--alias', order.spec.name],
    ...['--ctx-size', String(settings.context_tokens), '--parallel', String(settings.parallel)],
    ...['--threads', String(settings.threads), '--gpu-layers', '0'],
    ...sometimes.filter(([flag]) => engine.flags.includes(flag)).flat(),
  ];
}
