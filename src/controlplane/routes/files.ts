/**
 * Files of a running workload: content as it is, in bounded memory, facts as JSON.
 *
 * Invariants: a stream ends with the proof that opened it and with its run, within a second; what
 * changes a file is in the activity log before it happens.
 */
import { Readable } from 'node:stream';
import type { Context } from 'hono';
import { type Beside, findBeside } from '../../access/exec/beside.ts';
import { runError } from '../../access/exec/errors.ts';
import { EinsoraError } from '../../contract/errors.ts';
import { limits } from '../../contract/limits.ts';
import { routes } from '../../contract/routes.ts';
import { silentLog } from '../../lib/log.ts';
import type { RunFiles } from '../../lib/session.ts';
import { actionOf } from '../action.ts';
import type { Api, ApiEnv } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import { bodyOf, exactly, startOf } from '../file-streams.ts';
import { createRunWatch, type RunWatch } from '../run-watch.ts';
import { awaken } from '../ssh.ts';

type Deps = ApiDeps & {
  watch: RunWatch;
  /** How many streams each user has open. */
  open: Map<string, number>;
};

const page_entries = 1000;
const usual_mode = '644';

export function fileRoutes(app: Api, given: ApiDeps): void {
  // Held runs are looked at by a timer: what is written elsewhere is seen as soon.
  const watch = createRunWatch({ ...given, log: silentLog, changes: { onSettled: () => {} } });
  const deps: Deps = { ...given, watch, open: new Map() };
  contentRoutes(app, deps);
  factRoutes(app, deps);
}

function contentRoutes(app: Api, deps: Deps): void {
  app.openapi(routes.readFile, (c) =>
    inside(deps, c, async (files, beside) => {
      refuseMore(deps, c);
      const { path } = c.req.valid('query');
      const facts = await files.stat(path);
      const start = startOf(c.req.valid('header').range);
      if (start !== null && start > facts.size) {
        const why = `it has only ${facts.size} bytes`;
        throw new EinsoraError('file_refused', { path, name: beside.name, why });
      }
      const from = start ?? 0;
      const length = facts.size - from;
      const content = exactly(await files.read(path, from), length);
      hold(deps, c, beside, content);
      const headers: Record<string, string> = {
        'content-type': 'application/octet-stream',
        'content-length': String(length),
        'content-disposition': 'attachment',
        'content-security-policy': "sandbox; default-src 'none'",
        'accept-ranges': 'bytes',
        'x-einsora-mode': facts.mode.toString(8),
      };
      if (start !== null)
        headers['content-range'] = `bytes ${from}-${facts.size - 1}/${facts.size}`;
      const body = Readable.toWeb(content) as ReadableStream<Uint8Array>;
      return c.body(body, start === null ? 200 : 206, headers);
    }),
  );
  app.openapi(routes.writeFile, (c) =>
    inside(deps, c, async (files, beside) => {
      refuseMore(deps, c);
      const { path, mode = usual_mode } = c.req.valid('query');
      await record(deps, c, beside, path);
      const content = bodyOf(c.req.raw.body, deps.clock, limits.request_body_ms);
      hold(deps, c, beside, content);
      await files.write(path, content, Number.parseInt(mode, 8));
      return c.body(null, 204);
    }),
  );
}

function factRoutes(app: Api, deps: Deps): void {
  app.openapi(routes.showFile, (c) =>
    inside(deps, c, async (files) => c.json(await files.stat(c.req.valid('query').path), 200)),
  );
  app.openapi(routes.listFiles, (c) =>
    inside(deps, c, async (files) => {
      const { path, cursor } = c.req.valid('query');
      const all = await files.list(path);
      const rest = cursor === undefined ? all : all.filter(({ name }) => name > cursor);
      const items = rest.slice(0, page_entries);
      const next_cursor = rest.length > page_entries ? (items.at(-1)?.name ?? null) : null;
      return c.json({ items, next_cursor }, 200);
    }),
  );
  app.openapi(routes.makeFolder, (c) =>
    inside(deps, c, async (files, beside) => {
      const { path } = c.req.valid('query');
      await record(deps, c, beside, path);
      await files.makeFolder(path);
      return c.body(null, 204);
    }),
  );
  app.openapi(routes.removeFile, (c) =>
    inside(deps, c, async (files, beside) => {
      const { path } = c.req.valid('query');
      await record(deps, c, beside, path);
      await files.remove(path);
      return c.body(null, 204);
    }),
  );
}

/** Does something with the files of the run that is meant; what it refuses is told with its name. */
async function inside<T>(
  deps: Deps,
  c: Context<ApiEnv>,
  work: (files: RunFiles, beside: Beside) => Promise<T>,
): Promise<T> {
  const workload = c.req.param('workload') ?? '';
  const { store, clock, waker } = deps;
  const asker = { destroyed: false };
  c.req.raw.signal.addEventListener('abort', () => {
    asker.destroyed = true;
  });
  const beside = await findBeside(store, c.get('principal').tenant_id, workload, (id) =>
    awaken({ store, clock, wake: waker.wake }, id, asker, 'somebody reached for its files'),
  );
  try {
    return await work(await deps.backend.files(beside.machine_id, beside.run), beside);
  } catch (thrown) {
    const { request_id, log } = c.env.facts;
    const error = runError(thrown, beside.name, request_id);
    if (error.code === 'internal') log.info({ error: String(thrown) }, 'a file was cut off');
    throw error;
  }
}

/** Streams no longer count among the requests that are served at once: they are counted here. */
function refuseMore({ open }: Deps, c: Context<ApiEnv>): void {
  const limit = limits.file_streams_per_user;
  if ((open.get(c.get('principal').user_id) ?? 0) < limit) return;
  throw new EinsoraError('too_many_streams', { limit });
}

/** Breaks a stream off when its proof or its run ends. */
function hold(deps: Deps, c: Context<ApiEnv>, beside: Beside, stream: Readable): void {
  const { facts } = c.env;
  const breakOff = () => {
    stream.destroy(new Error('it may not go on'));
    facts.hangUp?.();
  };
  facts.holds?.();
  const { user_id } = c.get('principal');
  deps.open.set(user_id, (deps.open.get(user_id) ?? 0) + 1);
  const unwatch = deps.revocations.watch(c.get('principal'), breakOff);
  const undo = deps.watch.watch(beside.run, breakOff);
  stream.once('close', () => {
    unwatch();
    undo();
    const left = (deps.open.get(user_id) ?? 1) - 1;
    if (left > 0) deps.open.set(user_id, left);
    else deps.open.delete(user_id);
  });
  stream.on('error', () => {});
}

function record(deps: Deps, c: Context<ApiEnv>, beside: Beside, path: string): Promise<void> {
  const { workload_id } = beside;
  const kept = path.slice(0, limits.exec_program_chars);
  return deps.store.transact('recordFileChange', {
    ...{ workload_id, path: kept, action: actionOf(deps, c) },
  });
}
