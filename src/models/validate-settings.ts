/**
 * The settings beside safetensors weights: `config.json`, the tokenizer's, and chat templates.
 *
 * Invariants: no setting that makes a Python engine import code of the model passes, wherever it
 * stands; every chat template obeys the rules for those in GGUF files.
 */
import { join } from 'node:path';
import { gguf_limits } from './gguf-limits.ts';
import { checkTemplate } from './gguf-template.ts';
import type { JsonObject, JsonValue } from './json-cursor.ts';
import { safetensors_limits as limits } from './safetensors-limits.ts';
import { readObject, readText } from './validate-index.ts';
import { must } from './validate-refusal.ts';

export type ModelSettings = {
  /** As the settings name it, or empty. */
  architecture: string;
  /** Tokens it was trained for, or 0 where it is not said. */
  context_length: number;
  chat_template: boolean;
};

/** `auto_map` names the model's own Python classes; the others switch them on. */
const code_settings = ['auto_map', 'trust_remote_code', 'custom_pipelines'];

/** What holds settings; a vocabulary is large and holds none. */
const holds_settings = /config[^/]*\.json$|template[^/]*\.json$/i;

export async function checkSettings(
  folder: string,
  names: readonly string[],
  looking: (path: string) => void,
): Promise<ModelSettings> {
  let config: JsonObject = new Map();
  let chat_template = false;
  const budget = { values: limits.document_values };
  for (const name of names) {
    const path = join(folder, name);
    looking(path);
    if (/\.jinja2?$/i.test(name)) {
      checkTemplateBytes(await readText(path, gguf_limits.template_bytes));
      chat_template = true;
    }
    if (!holds_settings.test(name)) continue;
    const document = await readObject(path, budget);
    refuseCode(document);
    if (name === 'config.json') config = document;
    for (const template of templatesOf(document.get('chat_template'))) {
      checkTemplateText(template);
      chat_template = true;
    }
  }
  looking(folder);
  return { ...factsOf(config), chat_template };
}

function refuseCode(value: JsonValue): void {
  if (Array.isArray(value)) {
    for (const item of value) refuseCode(item);
    return;
  }
  if (!(value instanceof Map)) return;
  for (const [name, inner] of value) {
    const is_off = inner === null || inner === false || (inner instanceof Map && inner.size === 0);
    must(!code_settings.includes(name) || is_off, 'remote_code', () => `It says "${name}".`);
    refuseCode(inner);
  }
}

/** One template, or several with a name each. */
function templatesOf(value: JsonValue | undefined): string[] {
  if (typeof value === 'string') return [value];
  if (!Array.isArray(value)) return [];
  return value.flatMap((item) => {
    const template = item instanceof Map ? item.get('template') : undefined;
    return typeof template === 'string' ? [template] : [];
  });
}

function checkTemplateBytes(bytes: Buffer): void {
  const text = bytes.toString('utf8');
  must(Buffer.from(text).equals(bytes), 'utf8', () => 'It is a chat template.');
  checkTemplate(text);
}

function checkTemplateText(text: string): void {
  must(Buffer.byteLength(text) <= gguf_limits.template_bytes, 'template_size');
  checkTemplate(text);
}

function factsOf(config: JsonObject) {
  const text_config = config.get('text_config');
  const inner = text_config instanceof Map ? text_config : config;
  const named = config.get('architectures');
  const first = Array.isArray(named) ? named[0] : config.get('model_type');
  const length = inner.get('max_position_embeddings');
  return {
    architecture: typeof first === 'string' ? first.slice(0, 200) : '',
    context_length: typeof length === 'number' && Number.isSafeInteger(length) ? length : 0,
  };
}
