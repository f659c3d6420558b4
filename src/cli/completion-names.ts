/**
 * The names that exist right now, for completion: workloads, machines, models, tokens, …
 *
 * Invariants: asked all at once, given a moment, and left out where that is not enough
 * or nothing serves; names that a shell would read as more than a name are left out.
 */
import { readdirSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { classes, models } from '../core/catalog.ts';
import { images } from '../core/images.ts';
import { type Client, openClient } from './client.ts';
import { readContexts } from './contexts.ts';
import type { Context } from './io.ts';

export type Name = { value: string; description: string };

const shown_files = 200;

type Source = (client: Client, signal: AbortSignal) => Promise<Name[]>;
type Item = Record<string, unknown>;

const sources: Record<string, Source> = {
  workloads: listed('/v1/workloads?limit=200', 'name', 'state'),
  machines: listed('/v1/machines', 'name', 'region'),
  tokens: listed('/v1/tokens?limit=200', 'id', 'name'),
  users: listed('/v1/users?limit=200', 'name', 'role'),
  tenants: listed('/v1/tenants?limit=200', 'slug', 'name'),
  secrets: listed('/v1/secrets', 'name', ''),
  'model-files': listed('/v1/model-files', 'id', 'source'),
};

/** Names that are part of the program: there though nothing serves. */
const built_in: Record<string, Name[]> = {
  catalog: models.map(({ name, title }) => ({ value: name, description: title })),
  classes: classes.map(({ name }) => ({ value: name, description: '' })),
  images: images.map(({ name, title }) => ({ value: name, description: title })),
};

/** What an argument of a command is the name of; null for what nobody can list. */
export function nounOfArgument(path: string, argument: string): string | null {
  if (argument === 'workload') return 'workloads';
  if (argument === 'model') return path === 'models rm' ? 'model-files' : 'catalog';
  if (argument === 'machine') return 'machines';
  if (argument === 'user') return 'users';
  if (argument === 'tenant') return 'tenants';
  if (argument === 'context') return 'contexts';
  if (path === 'tokens revoke') return 'tokens';
  return path === 'secrets rm' ? 'secrets' : null;
}

/** The same of an option's value. */
export function nounOfOption(option: string): string | null {
  const nouns: Record<string, string> = {
    class: 'classes',
    gpuClass: 'classes',
    image: 'images',
    machine: 'machines',
    tenant: 'tenants',
    user: 'users',
    context: 'contexts',
  };
  return nouns[option] ?? null;
}

export async function namesOf(
  context: Context,
  nouns: ReadonlySet<string | null>,
): Promise<Map<string, Name[]>> {
  const names = new Map(Object.entries(built_in));
  if (nouns.has('contexts')) names.set('contexts', contextsOf(context));
  const late = new AbortController();
  const cancel = context.io.clock.after(context.config.completion_ms, () => late.abort());
  await Promise.all(
    [...nouns].map(async (noun) => {
      const source = noun === null ? undefined : sources[noun];
      if (noun === null || source === undefined) return;
      try {
        names.set(noun, (await source(openClient(context), late.signal)).filter(isPlain));
      } catch {
        // Nothing serves, not signed in, not allowed, or too late: then there are no names.
      }
    }),
  );
  cancel();
  return names;
}

/** Folders and model files that continue what is typed, where that looks like a path. */
export function filesOf(cwd: string, typed: string): string[] {
  if (!/^\.{0,2}\//.test(typed)) return [];
  const folder = typed.endsWith('/') ? typed : dirname(typed);
  try {
    return readdirSync(resolve(cwd, folder), { withFileTypes: true })
      .filter((entry) => entry.isDirectory() || /\.(?:gguf|safetensors)$/i.test(entry.name))
      .slice(0, shown_files)
      .map((entry) => pathText(folder, entry.name) + (entry.isDirectory() ? '/' : ''))
      .filter((value) => isPlain({ value, description: '' }));
  } catch {
    return [];
  }
}

function pathText(folder: string, name: string): string {
  const path = join(folder, name);
  return folder.startsWith('.') && !path.startsWith('.') ? `./${path}` : path;
}

function listed(path: string, name: string, about: string): Source {
  return async (client, signal) => {
    const response = await client.stream(path, signal);
    const chunks: Buffer[] = [];
    for await (const chunk of response) chunks.push(chunk as Buffer);
    const body = JSON.parse(Buffer.concat(chunks).toString('utf8')) as { items?: Item[] };
    return (body.items ?? []).map((item) => ({
      value: String(item[name] ?? ''),
      description: about === '' ? '' : String(item[about] ?? ''),
    }));
  };
}

function contextsOf(context: Context): Name[] {
  try {
    const { contexts } = readContexts(context.config);
    return Object.entries(contexts).map(([value, { url }]) => ({ value, description: url }));
  } catch {
    return [];
  }
}

function isPlain({ value }: Name): boolean {
  return /^[\w@%+=:,./-]+$/.test(value);
}
