/**
 * A notebook's run: JupyterLab in the machine's own environment and sandbox, or in a container.
 *
 * Invariants: its token and its key for the gateway stand in its environment alone; ready means
 * that its web page answered with that token, not that a port is open; it listens on a Unix socket
 * in its own folder, so that nothing of the machine's network reaches it.
 */
import type { NotebookSpec, RunSecrets } from '../contract/sync.ts';
import { type ImageRuntime, runtimeFor } from '../core/images.ts';
import type { BwrapBringer } from '../drivers/bwrap.ts';
import type { Driver } from '../drivers/driver.ts';
import type { Clock } from '../lib/clock.ts';
import { jupyterCommand } from '../runtimes/jupyter/command.ts';
import type { Jupyter, JupyterEnvironment } from '../runtimes/jupyter.ts';
import { callEngine } from './engine-client.ts';
import type { GatewayDoor } from './gateway-door.ts';
import {
  acceleratorOf,
  bringImage,
  placeOf,
  refusedBy,
  startRun,
  variablesOf,
} from './image-run.ts';
import { type Patience, untilAnswered, type Watched, watchRun } from './run-watch.ts';
import { type Failure, failure, type Order, type Outcome, type RunWork } from './run-work.ts';
import type { Stages } from './stages.ts';

export type NotebookDeps = {
  bwrap: Pick<BwrapBringer, 'install'>;
  jupyter: Jupyter;
  gateway: Pick<GatewayDoor, 'url'>;
  clock: Clock;
  patience: Patience;
};

export function createNotebookWork(deps: NotebookDeps): RunWork<NotebookSpec> {
  return {
    start: (driver, order, stages, signal) => start(deps, driver, order, stages, signal),
    async awaitReady(driver, order, stages, signal) {
      stages.begin('ready');
      const watched = watchedOf(deps, driver, order);
      const answered = await untilAnswered(watched, (status) => status === 200, signal);
      if (answered.ok) stages.done();
      return answered;
    },
    watch: (driver, order, signal, tell) => watchRun(watchedOf(deps, driver, order), signal, tell),
  };
}

async function start(
  deps: NotebookDeps,
  driver: Driver,
  order: Order<NotebookSpec>,
  stages: Stages,
  signal: AbortSignal,
): Promise<Outcome> {
  const { run, spec, secrets } = order;
  const runtime =
    spec.runtime ?? runtimeFor('notebook', spec.image_id, driver.name, acceleratorOf(spec));
  const site_token = secrets?.site_token ?? null;
  if (runtime === null || site_token === null) {
    const why = runtime === null ? `${driver.name} cannot run it` : 'its token did not come';
    return failure('start_failed', { why });
  }
  const variables = variablesOf(order);
  if (!variables.ok) return variables;
  const brought = await bring(deps, driver, { runtime, secrets }, stages, signal);
  if (!brought.ok) return brought;

  stages.begin('start');
  const { environment } = brought;
  const command = jupyterCommand(environment, runtime.workspace ?? '/tmp');
  const network = environment === null ? 'fenced' : 'host';
  const calls = await gatewayVariables(deps, driver, order, network);
  if (!calls.ok) return calls;
  const given = { ...command.env, ...calls.env, ...variables.env };
  const env = { ...given, ...command.own_env, JUPYTER_TOKEN: site_token };
  const started = await startRun(
    driver,
    {
      ...{ run, argv: command.argv, env, mounts: command.mounts },
      ...placeOf(spec, runtime),
      network,
      image: runtime.reference,
    },
    signal,
  );
  if (started.ok) stages.done();
  return started;
}

/**
 * What clients of OpenAI's API read, so that a cell calls the endpoints here. A user who names
 * another place or another key is left alone: neither is sent to where the other belongs.
 */
async function gatewayVariables(
  { gateway }: NotebookDeps,
  driver: Driver,
  { spec, secrets }: Order<NotebookSpec>,
  network: 'host' | 'fenced',
): Promise<{ ok: true; env: Record<string, string> } | Failure> {
  const key = secrets?.gateway_key ?? null;
  const is_own = 'OPENAI_BASE_URL' in spec.env || 'OPENAI_API_KEY' in spec.env;
  if (key === null || is_own) return { ok: true, env: {} };
  let url: string | null = gateway.url();
  if (network === 'fenced') {
    try {
      const host = (await driver.gatewayHost?.()) ?? null;
      url = host === null ? null : `http://${host}/v1`;
    } catch (error) {
      return refusedBy(error, {});
    }
  }
  return { ok: true, env: url === null ? {} : { OPENAI_BASE_URL: url, OPENAI_API_KEY: key } };
}

type Brought = { ok: true; environment: JupyterEnvironment | null } | Failure;

/** The environment on the machine, or the image. */
async function bring(
  deps: NotebookDeps,
  driver: Driver,
  { runtime, secrets }: { runtime: ImageRuntime; secrets: RunSecrets | null },
  stages: Stages,
  signal: AbortSignal,
): Promise<Brought> {
  if (runtime.reference !== null) {
    const image = await bringImage(driver, runtime.reference, stages, signal, secrets);
    return image.ok ? { ok: true, environment: null } : image;
  }
  const onProgress = (done: number, total: number) => stages.progress(done, total);
  stages.begin('sandbox');
  const bwrap = await deps.bwrap.install(onProgress, signal);
  if (!bwrap.ok) return failure(bwrap.code, bwrap.details);
  stages.done(`bubblewrap ${bwrap.version}`);
  stages.begin('environment');
  const installed = await deps.jupyter.install(onProgress, signal);
  if (!installed.ok) return failure(installed.code, installed.details);
  stages.done(installed.environment.label);
  return { ok: true, environment: installed.environment };
}

function watchedOf(
  { clock, patience }: NotebookDeps,
  driver: Driver,
  { run, secrets }: Order<NotebookSpec>,
): Watched {
  const token = secrets?.site_token ?? null;
  const { health_ms: timeout_ms } = patience;
  // One that was taken over is asked what it tells everybody.
  const call =
    token === null
      ? { method: 'GET' as const, path: '/api', timeout_ms }
      : {
          ...{ method: 'GET' as const, path: '/api/status', timeout_ms },
          headers: { authorization: `token ${token}` },
        };
  return {
    ...{ driver, run, clock, patience },
    codes: {
      exited: 'notebook_exited',
      never_ready: 'notebook_never_ready',
      hangs: 'notebook_hangs',
    },
    ask: (signal) => callEngine(clock, () => driver.dial(run, 'web'), call, signal),
  };
}
