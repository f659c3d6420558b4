/**
 * Which files of a repository are the model that was asked for: a pure choice over its list.
 *
 * Invariants: what can run code when it is loaded is never chosen; where more than one model fits,
 * none is guessed; all parts of a split model are chosen or none.
 */
import type { HubFile } from './hub.ts';
import { allShards, shardName } from './shards.ts';
import { SourceError } from './source-error.ts';
import { type HubName, sourceText } from './source-name.ts';

export type ModelFormat = 'gguf' | 'safetensors';

export type HubChoice = {
  format: ModelFormat;
  /** What an engine is given: the first part of a GGUF, or the index or file of safetensors. */
  main: HubFile;
  /** All files, the main one first. Parts of safetensors come from their index. */
  files: HubFile[];
  /** The file that names the parts, where they are still to be read from it. */
  index: HubFile | null;
};

/** Pickles and archives of them, code, and formats that carry either. */
const unsafe =
  /\.(?:py|pyc|so|dll|dylib|sh|bin|pt|pth|ckpt|pkl|pickle|joblib|npy|npz|h5|hdf5|keras|nemo|zip|7z|tar|t?gz|mar|msgpack|onnx|pb|tflite|llamafile|exe)$/i;
/** Beside safetensors: what an engine reads, all of it text or data. */
const beside =
  /^(?:config|generation_config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab|preprocessor_config|processor_config|chat_template)\.json$|^merges\.txt$|^(?:tokenizer|spiece)\.model$|^chat_template\.jinja$/;
/** GGUF files that are no model by themselves. */
const no_model = /(?:^|[/._-])(?:mmproj|imatrix|ggml-vocab)/i;
const shown_choices = 12;

export function isUnsafeFile(path: string): boolean {
  return unsafe.test(path);
}

export function chooseFiles(name: HubName, files: readonly HubFile[], page: string): HubChoice {
  const choice = name.path === null ? chooseByContent(name, files, page) : named(name, files, page);
  if ('format' in choice) return choice;
  return ggufParts(name, choice, files);
}

/** The file that the user named. */
function named(name: HubName, files: readonly HubFile[], page: string): HubFile | HubChoice {
  const path = name.path ?? '';
  if (isUnsafeFile(path)) {
    throw new SourceError('model_file_unsafe', { file: path, repo: name.repo });
  }
  const file = files.find((one) => one.path === path);
  if (file === undefined) {
    const models = ggufChoices(files);
    const choices = models.map((one) => one.path);
    const example = sourceText({ ...name, path: choices[0] ?? null });
    const details = { repo: name.repo, file: path, choices: listed(choices), example };
    throw new SourceError('hub_file_not_found', details);
  }
  if (/\.safetensors(?:\.index\.json)?$/.test(path)) return safetensorsOf(name, file, files);
  if (/\.gguf$/i.test(path)) return file;
  const why = `${path} is neither GGUF nor safetensors`;
  throw new SourceError('model_files_missing', { repo: name.repo, why, page });
}

function chooseByContent(
  name: HubName,
  files: readonly HubFile[],
  page: string,
): HubFile | HubChoice {
  const { repo, quant } = name;
  const all = ggufChoices(files);
  const fitting = quant === null ? all : all.filter((one) => hasQuant(one.path, quant));
  const [only] = fitting;
  if (fitting.length === 1 && only !== undefined) return only;
  if (all.length > 0) throw ambiguous(name, fitting.length === 0 ? all : fitting);
  const main = ['model.safetensors.index.json', 'model.safetensors']
    .map((path) => files.find((one) => one.path === path))
    .find((one) => one !== undefined);
  if (main !== undefined && quant === null) return safetensorsOf(name, main, files);
  const bad = files.find((one) => isUnsafeFile(one.path))?.path;
  const why =
    bad === undefined
      ? 'it has no GGUF and no safetensors'
      : `${bad} can run code when it is loaded`;
  throw new SourceError('model_files_missing', { repo, why, page });
}

/** One entry for each GGUF model: split ones by their first part. */
function ggufChoices(files: readonly HubFile[]): HubFile[] {
  return files.filter(({ path }) => {
    if (!/\.gguf$/i.test(path) || no_model.test(path)) return false;
    return (shardName(path)?.index ?? 1) === 1;
  });
}

/** `Q4_K_M` is in `x-q4_k_m.gguf` and not in `x-Q4_K_M_L.gguf`. */
export function hasQuant(path: string, quant: string): boolean {
  const words = quant.replace(/[.]/g, '\\.');
  return new RegExp(`(?:^|[/._-])${words}(?=[/.-]|$)`, 'i').test(path);
}

function ambiguous(name: HubName, all: readonly HubFile[]): SourceError {
  const choices = all.map(({ path }) => path);
  const first = choices[0] ?? '';
  const quant = quantOf(first);
  const alone = quant !== null && choices.filter((path) => hasQuant(path, quant)).length === 1;
  const example = sourceText(
    alone ? { ...name, path: null, quant } : { ...name, path: first, quant: null },
  );
  return new SourceError('model_choice_needed', {
    ...{ repo: name.repo, count: choices.length, choices: listed(choices), example },
  });
}

/** The quantization that a file's name tells, or null. */
function quantOf(path: string): string | null {
  const words = /(?:^|[/._-])((?:UD-)?(?:I?Q\d\w*|B?F16|F32|MXFP4\w*))(?=[/.-]|$)/i;
  return words.exec(path.split('/').at(-1) ?? '')?.[1] ?? null;
}

function ggufParts(name: HubName, first: HubFile, files: readonly HubFile[]): HubChoice {
  const paths = allShards(first.path);
  const parts = paths.map((path) => files.find((one) => one.path === path));
  const missing = paths.filter((_, index) => parts[index] === undefined);
  if (missing.length > 0) {
    const details = { repo: name.repo, file: first.path, count: paths.length };
    throw new SourceError('model_parts_missing', { ...details, missing: listed(missing) });
  }
  const whole = parts.filter((one) => one !== undefined);
  return { format: 'gguf', main: whole[0] ?? first, files: whole, index: null };
}

function safetensorsOf(name: HubName, main: HubFile, files: readonly HubFile[]): HubChoice {
  const folder = main.path.includes('/') ? `${main.path.replace(/\/[^/]*$/, '')}/` : '';
  const helpers = files.filter(
    ({ path }) => path.startsWith(folder) && beside.test(path.slice(folder.length)),
  );
  const is_index = main.path.endsWith('.json');
  const shards = is_index
    ? files.filter(({ path }) => path.startsWith(folder) && path.endsWith('.safetensors'))
    : [];
  if (is_index && shards.length === 0) {
    const details = { repo: name.repo, file: main.path, count: 0, missing: 'all' };
    throw new SourceError('model_parts_missing', details);
  }
  const index = is_index ? main : null;
  return { format: 'safetensors', main, files: [main, ...shards, ...helpers], index };
}

function listed(paths: readonly string[]): string {
  if (paths.length === 0) return 'no model';
  const rest = paths.length - shown_choices;
  return paths.slice(0, shown_choices).join(', ') + (rest > 0 ? ` and ${rest} more` : '');
}
