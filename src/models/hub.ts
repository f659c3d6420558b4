/**
 * A model hub that speaks the Hugging Face API: which files a repository has, and what one file is.
 *
 * Invariants: every answer is bounded in bytes, pages and time; each way in which a hub refuses has
 * its own code; a commit is taken only as 40 hex digits, a checksum only as 64; names of files are
 * checked before anybody uses them.
 */
import { formatDuration } from '../core/format.ts';
import type { Details, ReasonCode } from '../core/reasons.ts';
import type { Secret } from '../lib/secret.ts';
import { isPlainPath } from './shards.ts';
import { SourceError } from './source-error.ts';
import { type Answer, ask, type Net, retryAfter, textOf } from './source-http.ts';

export type Hub = {
  net: Net;
  /** Without a slash at its end. */
  url: string;
  /** The user's, where there is one. */
  token: Secret | null;
};

/** A repository at one revision. */
export type HubRepo = { repo: string; revision: string };

export type HubFile = {
  path: string;
  bytes: number;
  /** `sha256` of large files; `git-sha1` (of the blob) of small ones. */
  digest: { kind: 'sha256' | 'git-sha1'; value: string };
};

const page_bytes = 8 * 2 ** 20;
const pages_at_most = 50;
const files_at_most = 20_000;

/** The commit that a revision stands for now: what everything after it is asked of. */
export async function commitOf(hub: Hub, of: HubRepo, signal: AbortSignal): Promise<string> {
  const path = `/api/models/${of.repo}/revision/${encodeURIComponent(of.revision)}`;
  const answer = await get(hub, of, new URL(path, hub.url), signal);
  const { sha } = (await jsonOf(hub, answer)) as { sha?: unknown };
  if (typeof sha !== 'string' || !/^[0-9a-f]{40}$/.test(sha))
    throw unusable(hub, 'no commit in it');
  return sha;
}

/** Every file of a repository at a commit. Entries that could lead elsewhere are refused. */
export async function listTree(hub: Hub, of: HubRepo, signal: AbortSignal): Promise<HubFile[]> {
  const files: HubFile[] = [];
  const path = `/api/models/${of.repo}/tree/${encodeURIComponent(of.revision)}?recursive=true`;
  let next: URL | null = new URL(path, hub.url);
  for (let page = 0; next !== null; page += 1) {
    if (page >= pages_at_most) throw unusable(hub, `a list of more than ${pages_at_most} pages`);
    const answer: Answer = await get(hub, of, next, signal);
    const entries = await jsonOf(hub, answer);
    if (!Array.isArray(entries)) throw unusable(hub, 'a list of files that is none');
    for (const entry of entries) {
      const file = readEntry(hub, entry as Entry);
      if (file !== null) files.push(file);
    }
    if (files.length > files_at_most) throw unusable(hub, `more than ${files_at_most} files`);
    next = nextPage(hub, answer, next);
  }
  return files;
}

/** The text of a small file of a repository. */
export async function readSmall(
  hub: Hub,
  of: HubRepo,
  path: string,
  limit_bytes: number,
  signal: AbortSignal,
): Promise<string> {
  const answer = await get(hub, of, fileUrl(hub, of, path), signal, path);
  const text = await textOf(hub.net, answer, limit_bytes);
  if (text === null) throw unusable(hub, `${path} is longer than ${limit_bytes} bytes`);
  return text;
}

export function fileUrl(hub: Hub, of: HubRepo, path: string): URL {
  const parts = path.split('/').map(encodeURIComponent).join('/');
  return new URL(`/${of.repo}/resolve/${encodeURIComponent(of.revision)}/${parts}`, hub.url);
}

/** The hub's token, for its own origin alone. */
export function tokenOf(hub: Hub): { secret: Secret; origin: string } | null {
  return hub.token === null ? null : { secret: hub.token, origin: new URL(hub.url).origin };
}

async function get(
  hub: Hub,
  of: HubRepo,
  url: URL,
  signal: AbortSignal,
  file: string | null = null,
): Promise<Answer> {
  const asked = { method: 'GET', url, token: tokenOf(hub), follow: 'all', signal } as const;
  const answer = await ask(hub.net, asked).catch((error: unknown) => {
    throw asHubError(error);
  });
  if (answer.status === 200) return answer;
  answer.body.destroy();
  throw hubRefusal(hub, of, answer, file);
}

/** That a hub cannot be reached is told as such. */
export function asHubError(error: unknown): unknown {
  if (!(error instanceof SourceError) || error.code !== 'source_unreachable') return error;
  const { temporary } = error;
  return new SourceError('hub_unreachable', error.details, { temporary, cause: error });
}

/** What a hub means by an answer that is not the thing asked for. */
export function hubRefusal(
  hub: Hub,
  of: HubRepo,
  answer: Answer,
  file: string | null,
): SourceError {
  const { host } = new URL(hub.url);
  const page = `${hub.url}/${of.repo}`;
  const details: Details = { host, hub: hub.url, page, ...of, url: page };
  const refuse = (code: ReasonCode, more: Details = {}) =>
    new SourceError(code, { ...details, ...more });
  const { status } = answer;
  const error_code = header(answer, 'x-error-code');
  const said = header(answer, 'x-error-message');
  if (/access to this resource is disabled/i.test(said)) return refuse('hub_repo_disabled');
  if (error_code === 'GatedRepo') return refuse('hub_gated');
  if (error_code === 'RevisionNotFound') return refuse('hub_revision_not_found');
  if (error_code === 'EntryNotFound') {
    const example = `hf://${of.repo}`;
    return refuse('hub_file_not_found', { file, choices: 'other files', example });
  }
  if (status === 429) return rateLimited(hub, answer, details);
  if (status >= 500 || status === 408) {
    return new SourceError(
      'hub_failing',
      { ...details, status },
      { temporary: true, retry_after_ms: retryAfter(hub.net, answer) },
    );
  }
  if (error_code === 'RepoNotFound' || status === 404) return refuse('hub_repo_not_found');
  if (status === 401)
    return refuse(hub.token === null ? 'hub_repo_not_found' : 'hub_token_refused');
  if (status === 403) return refuse('hub_gated');
  return refuse('hub_answer_invalid', { why: `status ${status}` });
}

function rateLimited(hub: Hub, answer: Answer, details: Details): SourceError {
  const retry_after_ms = retryAfter(hub.net, answer);
  const wait = retry_after_ms === null ? 'a while' : formatDuration(retry_after_ms);
  return new SourceError(
    'hub_rate_limited',
    { ...details, wait },
    { temporary: true, retry_after_ms },
  );
}

async function jsonOf(hub: Hub, answer: Answer): Promise<unknown> {
  const text = await textOf(hub.net, answer, page_bytes).catch((error: unknown) => {
    throw asHubError(error);
  });
  if (text === null) throw unusable(hub, `more than ${page_bytes} bytes`);
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null) return value;
  } catch {
    // Said below, whatever it was.
  }
  throw unusable(hub, /^\s*</.test(text) ? 'a web page' : 'no JSON');
}

type Entry = {
  type?: unknown;
  path?: unknown;
  size?: unknown;
  oid?: unknown;
  lfs?: { oid?: unknown; size?: unknown } | null;
};

function readEntry(hub: Hub, entry: Entry): HubFile | null {
  if (entry?.type !== 'file') return null;
  const { path, lfs } = entry;
  const bytes = lfs?.size ?? entry.size;
  const value = lfs?.oid ?? entry.oid;
  const kind = lfs ? 'sha256' : 'git-sha1';
  if (typeof path !== 'string' || !isPlainPath(path)) throw unusable(hub, 'a file with a bad name');
  if (typeof bytes !== 'number' || !Number.isSafeInteger(bytes) || bytes < 0) {
    throw unusable(hub, `${path} with a size that is none`);
  }
  const digits = kind === 'sha256' ? 64 : 40;
  if (typeof value !== 'string' || !new RegExp(`^[0-9a-f]{${digits}}$`).test(value)) {
    throw unusable(hub, `${path} with a checksum that is none`);
  }
  return { path, bytes, digest: { kind, value } };
}

/** `Link: <url>; rel="next"`, within the hub. */
function nextPage(hub: Hub, answer: Answer, from: URL): URL | null {
  const link = [answer.headers.link ?? ''].flat().join(',');
  const target = /<([^>]*)>\s*;[^,<]*\brel="?next"?/i.exec(link)?.[1];
  if (target === undefined) return null;
  const url = URL.parse(target, from.href);
  if (url === null || url.origin !== new URL(hub.url).origin) {
    throw unusable(hub, 'a list that goes on elsewhere');
  }
  return url;
}

function unusable(hub: Hub, why: string): SourceError {
  const { host } = new URL(hub.url);
  return new SourceError('hub_answer_invalid', { host, hub: hub.url, why });
}

function header(answer: Answer, name: string): string {
  return [answer.headers[name] ?? ''].flat().join(' ');
}
