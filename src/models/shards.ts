/**
 * Models that come in several files: names of the parts of a split GGUF, and the index of split
 * safetensors.
 *
 * Invariants: pure; a name from elsewhere is a plain relative path below its repository or is
 * refused: no `..`, nothing absolute, no separator of other systems, no control characters.
 */

/** `qwen-00001-of-00003.gguf` as its parts, or null where a name says no such thing. */
export function shardName(path: string): { stem: string; index: number; count: number } | null {
  const match = /^(.+)-(\d{5})-of-(\d{5})\.gguf$/i.exec(path);
  if (!match?.[1] || !match[2] || !match[3]) return null;
  const [index, count] = [Number(match[2]), Number(match[3])];
  return index >= 1 && index <= count ? { stem: match[1], index, count } : null;
}

/** The names of all parts of the split GGUF that `path` is one of; itself where it is whole. */
export function allShards(path: string): string[] {
  const shard = shardName(path);
  if (shard === null) return [path];
  const five = (number: number) => String(number).padStart(5, '0');
  return Array.from(
    { length: shard.count },
    (_, index) => `${shard.stem}-${five(index + 1)}-of-${five(shard.count)}.gguf`,
  );
}

/** Whether a path from elsewhere may name a file below a folder of ours. */
export function isPlainPath(path: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: refusing control characters is the point
  if (path.length > 512 || /[\\\u0000-\u001f\u007f]|^[a-z]:[/\\]/i.test(path)) return false;
  return path.split('/').every((part) => part !== '' && part !== '.' && part !== '..');
}

export type ShardIndex = { ok: true; files: string[] } | { ok: false; why: string };

/** The files that an index of safetensors names, in order, each once. */
export function readShardIndex(text: string): ShardIndex {
  let map: unknown;
  try {
    map = (JSON.parse(text) as { weight_map?: unknown }).weight_map;
  } catch {
    return { ok: false, why: 'the index is not JSON' };
  }
  if (typeof map !== 'object' || map === null || Array.isArray(map)) {
    return { ok: false, why: 'the index has no weight_map' };
  }
  const files = [...new Set<unknown>(Object.values(map))];
  if (files.length === 0) return { ok: false, why: 'the index names no file' };
  const bad = files.find((file) => typeof file !== 'string' || !isShardOfIndex(file));
  if (bad !== undefined) {
    return { ok: false, why: `the index names ${JSON.stringify(bad).slice(0, 80)}` };
  }
  return { ok: true, files: (files as string[]).sort() };
}

function isShardOfIndex(file: string): boolean {
  return isPlainPath(file) && file.endsWith('.safetensors');
}
