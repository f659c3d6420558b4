/**
 * What a model of a source consists of, asked before anything is placed or fetched: which files, of
 * which revision, how large, with which checksums.
 *
 * Invariants: a plan's `source` is pinned, so that planning it again gives the same files; the head
 * of the main file is asked for too, since a gated repository shows its list to everybody; nothing
 * of a file's content is read but an index of parts.
 */
import type { Secret } from '../lib/secret.ts';
import {
  asHubError,
  commitOf,
  fileUrl,
  type Hub,
  type HubFile,
  hubRefusal,
  listTree,
  readSmall,
  tokenOf,
} from './hub.ts';
import { chooseFiles, type HubChoice, type ModelFormat } from './hub-choice.ts';
import { readShardIndex } from './shards.ts';
import { SourceError, shownUrl } from './source-error.ts';
import { type Answer, ask, type Net } from './source-http.ts';
import { type HubName, sourceText } from './source-name.ts';
import { refusalOf } from './source-status.ts';

export type Digest = HubFile['digest'];

export type PlannedFile = {
  /** Below the folder of the model. */
  name: string;
  bytes: number;
  /** Null where the source gives none. */
  digest: Digest | null;
  url: URL;
  /** A strong validator of an https source, to resume only what is still the same. */
  etag: string | null;
  /** What its first bytes must be; null for what goes beside a model. */
  format: ModelFormat | null;
};

export type SourcePlan = {
  /** The pinned name. */
  source: string;
  revision: string | null;
  format: ModelFormat;
  /** Name of the file that an engine is given. */
  main: string;
  files: PlannedFile[];
  bytes: number;
  /** The hub and repository that it is of, for refusals; null for plain https. */
  hub: { hub: Hub; repo: string; revision: string } | null;
};

export type Sources = {
  net: Net;
  /** Without a slash at its end. */
  hub_url: string;
};

const index_bytes = 32 * 2 ** 20;

export async function planSource(
  sources: Sources,
  name: HubName | { kind: 'https'; url: string },
  token: Secret | null,
  signal: AbortSignal,
): Promise<SourcePlan> {
  return name.kind === 'hub'
    ? planHub({ net: sources.net, url: sources.hub_url, token }, name, signal)
    : planHttps(sources.net, new URL(name.url), signal);
}

async function planHub(hub: Hub, name: HubName, signal: AbortSignal): Promise<SourcePlan> {
  const asked = name.revision ?? 'main';
  const { repo } = name;
  const revision = /^[0-9a-f]{40}$/.test(asked)
    ? asked
    : await commitOf(hub, { repo, revision: asked }, signal);
  const of = { repo, revision };
  const tree = await listTree(hub, of, signal);
  const choice = chooseFiles(name, tree, `${hub.url}/models?search=${repo.split('/')[1]}+GGUF`);
  await checkHead(hub, of, choice.main, signal);
  const files = await partsOf(hub, of, choice, signal);
  const main = choice.main.path;
  const folder = main.slice(0, main.lastIndexOf('/') + 1);
  const planned = files.map((file): PlannedFile => {
    const is_model = file.path.endsWith('.safetensors') || choice.format === 'gguf';
    return {
      name: file.path.slice(folder.length),
      bytes: file.bytes,
      digest: file.digest,
      url: fileUrl(hub, of, file.path),
      etag: null,
      format: is_model ? choice.format : null,
    };
  });
  return {
    source: sourceText({ kind: 'hub', repo, revision, path: main, quant: null }),
    ...{ revision, format: choice.format, main: main.slice(folder.length), files: planned },
    bytes: planned.reduce((sum, file) => sum + file.bytes, 0),
    hub: { hub, repo, revision },
  };
}

/** Whether we may have the file, and that it is what the list said. */
async function checkHead(
  hub: Hub,
  of: { repo: string; revision: string },
  file: HubFile,
  signal: AbortSignal,
): Promise<void> {
  const url = fileUrl(hub, of, file.path);
  const asked = {
    method: 'HEAD',
    url,
    token: tokenOf(hub),
    follow: 'same-origin',
    signal,
  } as const;
  const answer = await ask(hub.net, asked).catch((error: unknown) => {
    throw asHubError(error);
  });
  answer.body.destroy();
  if (answer.status !== 200 && (answer.status < 300 || answer.status >= 400)) {
    throw hubRefusal(hub, of, answer, file.path);
  }
  const commit = answer.headers['x-repo-commit'];
  const size = answer.headers['x-linked-size'];
  const etag = answer.headers['x-linked-etag'];
  const differs =
    (commit !== undefined && commit !== of.revision) ||
    (size !== undefined && Number(size) !== file.bytes) ||
    (etag !== undefined && String(etag).replace(/^W\/|"/g, '') !== file.digest.value);
  if (!differs) return;
  const why = `${file.path} is another one than its list says`;
  throw new SourceError('hub_answer_invalid', { host: url.host, hub: hub.url, why });
}

/** The files to fetch: of split safetensors those that their index names, and no others. */
async function partsOf(
  hub: Hub,
  of: { repo: string; revision: string },
  choice: HubChoice,
  signal: AbortSignal,
): Promise<HubFile[]> {
  const { index, main, files } = choice;
  if (index === null) return files;
  const text = await readSmall(hub, of, index.path, index_bytes, signal);
  const read = readShardIndex(text);
  const host = new URL(hub.url).host;
  if (!read.ok) throw new SourceError('hub_answer_invalid', { host, hub: hub.url, why: read.why });
  const folder = main.path.slice(0, main.path.lastIndexOf('/') + 1);
  const missing = read.files.filter((name) => !files.some(({ path }) => path === folder + name));
  if (missing.length > 0) {
    const details = { repo: of.repo, file: main.path, count: read.files.length };
    throw new SourceError('model_parts_missing', { ...details, missing: missing[0] ?? '' });
  }
  const wanted = new Set(read.files.map((name) => folder + name));
  return files.filter(({ path }) => !path.endsWith('.safetensors') || wanted.has(path));
}

async function planHttps(net: Net, url: URL, signal: AbortSignal): Promise<SourcePlan> {
  const answer = await headOf(net, url, signal);
  answer.body.destroy();
  const name = fileNameOf(url);
  const details = { host: url.host, url: shownUrl(url), what: name, file: name };
  const bytes = lengthOf(answer);
  if (bytes === null) throw new SourceError('source_size_unknown', details);
  if (/^text\/html\b/i.test(answer.headers['content-type'] ?? '')) {
    throw new SourceError('source_not_a_model', { ...details, kind: 'a web page' });
  }
  const etag = answer.headers.etag ?? null;
  const format = /\.safetensors$/i.test(name) ? 'safetensors' : 'gguf';
  const file: PlannedFile = {
    ...{ name, bytes, digest: null, url, format },
    etag: etag?.startsWith('W/') ? null : etag,
  };
  return {
    ...{ source: url.href, revision: null, format, main: name, files: [file], bytes, hub: null },
  };
}

/** The head of a file; where a server has none to give (signed URLs), the head of a first byte. */
async function headOf(net: Net, url: URL, signal: AbortSignal): Promise<Answer> {
  const asked = { url, follow: 'all', signal } as const;
  const head = await ask(net, { ...asked, method: 'HEAD' });
  if (head.status === 200 && lengthOf(head) !== null) return head;
  head.body.destroy();
  if (![200, 400, 403, 405, 501].includes(head.status))
    throw refusalOf(net, head, url, fileNameOf(url));
  const one = await ask(net, { ...asked, method: 'GET', headers: { range: 'bytes=0-0' } });
  if (one.status === 200 || one.status === 206) return one;
  one.body.destroy();
  throw refusalOf(net, one, url, fileNameOf(url));
}

/** The whole length that a head tells, or null. */
function lengthOf(answer: Answer): number | null {
  const range = /\/(\d{1,15})$/.exec(answer.headers['content-range'] ?? '')?.[1];
  const text = answer.status === 206 ? range : answer.headers['content-length'];
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

/** A name for a file of a URL: its last part, made plain, and that of a model in any case. */
function fileNameOf(url: URL): string {
  const last = url.pathname.split('/').filter(Boolean).at(-1) ?? '';
  const plain = last
    .replace(/%20/g, '-')
    .replace(/[^A-Za-z0-9._-]+/g, '-')
    .slice(-120);
  const name = plain.replace(/^[.-]+/, '') || 'model';
  return /\.(?:gguf|safetensors)$/i.test(name) ? name : `${name}.gguf`;
}
