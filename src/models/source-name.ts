/**
 * What a model given by name, path or URL means.
 *
 * Invariants: pure, so that a request is refused before anything is placed or asked; one meaning
 * has one spelling (`sourceText`), whichever way it was written.
 */
import { fileURLToPath } from 'node:url';
import { findBuiltin } from './builtin.ts';
import { isPlainPath } from './shards.ts';

export type HubName = {
  kind: 'hub';
  /** `owner/name`. */
  repo: string;
  /** Branch, tag or commit; null for the hub's own choice. */
  revision: string | null;
  /** A file of the repository, where one was named. */
  path: string | null;
  /** Part of a file's name such as `Q4_K_M`, where one was given. */
  quant: string | null;
};

export type ModelName =
  | { kind: 'catalog'; name: string }
  | { kind: 'file'; path: string }
  | HubName
  /** `url` is complete and without a fragment. */
  | { kind: 'https'; url: string }
  /** A source that Einsora does not fetch from. */
  | { kind: 'unsupported'; scheme: string }
  /** Neither in the catalog nor a path. */
  | { kind: 'unknown' }
  /** Meant as one of these, but it can be none. */
  | { kind: 'invalid'; problem: string };

const known_schemes = ['http', 'ollama', 'oci', 'docker', 's3', 'gs'];
const hub_url = /^(?:https:\/\/)?(?:www\.)?(?:hf\.co|huggingface\.co)\//i;
const hub_scheme = /^(?:hf|huggingface):(?:\/\/)?/i;

export function parseModelName(text: string): ModelName {
  if (text.includes('\0')) return invalid('the path holds a NUL');
  if (text.startsWith('/')) return { kind: 'file', path: text };
  if (/^file:/i.test(text)) return parseFileUrl(text);
  if (findBuiltin(text) !== null) return { kind: 'catalog', name: text };
  if (hub_scheme.test(text)) return parseHubName(text.replace(hub_scheme, ''));
  if (hub_url.test(text)) return parseHubUrl(text.replace(hub_url, ''));
  if (/^https:/i.test(text)) return parseHttps(text);
  const [, scheme = '', slashes] = /^([a-z][a-z0-9+.-]*):(\/\/)?/i.exec(text) ?? [];
  const is_scheme = slashes !== undefined || known_schemes.includes(scheme.toLowerCase());
  return is_scheme ? { kind: 'unsupported', scheme: scheme.toLowerCase() } : { kind: 'unknown' };
}

/** The one spelling of a source. */
export function sourceText(name: HubName | { kind: 'https'; url: string }): string {
  if (name.kind === 'https') return name.url;
  const { repo, revision, path, quant } = name;
  const at = revision === null ? '' : `@${encodeURIComponent(revision)}`;
  const rest = path === null ? (quant === null ? '' : `:${quant}`) : `/${path}`;
  return `hf://${repo}${at}${rest}`;
}

/** `owner/repo[@revision][/path or :quant]`. */
function parseHubName(text: string): ModelName {
  const match = /^([^/@:]+\/[^/@:]+)(?:@([^/:]*))?(?:\/(.*)|:(.*))?$/s.exec(text);
  if (!match?.[1]) return invalid('a model of a hub is hf://owner/repo');
  const [, repo, revision, path, quant] = match;
  return hubName(repo, decoded(revision), path === '' ? undefined : path, quant);
}

/** What stands behind the host in a URL of the hub: pages and files of a repository. */
function parseHubUrl(text: string): ModelName {
  const url = URL.parse(`https://hub/${text}`);
  const [owner = '', repo = '', kind, revision, ...path] =
    url?.pathname.slice(1).split('/').filter(Boolean) ?? [];
  const [bare = '', quant] = repo.split(':');
  if (kind === undefined) return hubName(`${owner}/${bare}`, undefined, undefined, quant);
  if (!['resolve', 'blob', 'raw', 'tree'].includes(kind) || revision === undefined) {
    // Not the form of a page: `hf.co/owner/repo/file.gguf`.
    if (hub_url.test(`hf.co/${text}`)) return parseHubName(text);
    return invalid('it is no page of a model');
  }
  const file = kind === 'tree' || path.length === 0 ? undefined : decoded(path.join('/'));
  return hubName(`${owner}/${repo}`, decoded(revision), file, undefined);
}

function hubName(
  repo: string,
  revision: string | null | undefined,
  path: string | null | undefined,
  quant: string | undefined,
): ModelName {
  const part = '[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_-])?';
  if (!new RegExp(`^${part}/${part}$`).test(repo) || /--|\.\./.test(repo)) {
    return invalid('the name of a repository is owner/name');
  }
  if (revision === null || (revision !== undefined && !isRevision(revision))) {
    return invalid('the revision is no branch, tag or commit');
  }
  if (path === null || (path !== undefined && !isPlainPath(path))) {
    return invalid('the file is no plain path of the repository');
  }
  if (quant !== undefined && !/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(quant)) {
    return invalid('what follows the colon is part of a file name, such as Q4_K_M');
  }
  const rest = { revision: revision ?? null, path: path ?? null, quant: quant ?? null };
  return { kind: 'hub', repo, ...rest };
}

function isRevision(text: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._/-]{0,199}$/.test(text) && !/\.\.|\/\/|\/$/.test(text);
}

/** Null where it cannot be decoded. */
function decoded(text: string | undefined): string | null | undefined {
  if (text === undefined) return undefined;
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

function parseHttps(text: string): ModelName {
  const url = /^https:\/\/[^/]/i.test(text) ? URL.parse(text) : null;
  if (url === null) return invalid('the URL cannot be read');
  if (url.username !== '' || url.password !== '') return invalid('a URL with a password in it');
  if (url.pathname === '/') return invalid('the URL names no file');
  url.hash = '';
  return { kind: 'https', url: url.href };
}

function parseFileUrl(text: string): ModelName {
  if (!/^file:\/\/(localhost)?\//i.test(text)) {
    return invalid('a file URL is file:// and an absolute path');
  }
  try {
    const url = new URL(text);
    if (url.search !== '' || url.hash !== '') {
      return invalid('write ? and # of a file name as %3F and %23');
    }
    const path = fileURLToPath(url);
    return path.includes('\0') ? invalid('the path holds a NUL') : { kind: 'file', path };
  } catch {
    return invalid('the file URL cannot be decoded');
  }
}

function invalid(problem: string): ModelName {
  return { kind: 'invalid', problem };
}
