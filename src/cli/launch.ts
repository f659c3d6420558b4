/**
 * `einsora launch`: the plan, the record, the stages, and how to call what runs.
 *
 * Invariants: the plan is shown before anything is recorded; leaving (Ctrl-C, --detach, --timeout)
 * never undoes what is recorded; the key is made once and printed once.
 */
import type { Launch, Plan, Workload } from '../contract/workloads.ts';
import { classes, models } from '../core/catalog.ts';
import { images, siteOf } from '../core/images.ts';
import type { Kind } from '../core/workload.ts';
import { type AttachOutcome, attach, openInterrupt } from './attach.ts';
import { CliError } from './cli-error.ts';
import { type Client, openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import { roomMadeText } from './fallback.ts';
import { takenText } from './fallback-view.ts';
import type { Context } from './io.ts';
import { launchRequest, type RequestOptions, shownRequest } from './launch-request.ts';
import { exitOfEnd, failureOf, readTail, sayDetached, sayOutcome } from './outcome.ts';
import { printData, printJson, say } from './output.ts';
import { planLines } from './plan-view.ts';
import { curlCommand, printReady } from './ready.ts';
import { nearNames } from './suggest.ts';

export type LaunchOptions = RequestOptions & {
  /** False: a notebook is not opened in a browser. */
  open?: boolean;
  detach?: boolean;
  /** Nothing is launched. */
  plan?: boolean;
  json?: boolean;
  /** Where it would wait, idle endpoints of who asks are stopped. */
  makeRoom?: boolean;
  /** Milliseconds. */
  timeout?: number;
};

type Recorded = { request: Launch; plan: Plan; workload: Workload };

export async function launch(
  context: Context,
  kind: Kind,
  asked: { model?: string; command?: string[] },
  options: LaunchOptions,
): Promise<number> {
  const client = openClient(context);
  const interrupt = openInterrupt(context.io);
  try {
    const request = launchRequest(context.io.cwd, kind, asked, options);
    const plan = await client.plan(request).catch(withNearNames);
    if (options.plan) return showPlan(context, plan, options);
    if (!options.json) for (const line of planLines(plan)) say(context, line);
    if (interrupt.signal.aborted) return exitCode('interrupted');
    const recorded = { request, plan, workload: await client.launch(request) };
    sayName(context, recorded);
    if (options.makeRoom) await clearRoom(context, client, recorded);
    if (options.detach) return await leave(context, client, recorded, options);
    const outcome = await attach(context, client, recorded.workload, {
      interrupt: interrupt.signal,
      timeout_ms: options.timeout ?? null,
    });
    return await conclude(context, client, recorded, outcome, options);
  } finally {
    interrupt.close();
  }
}

/** The plan is what was asked for, so it is the output. */
function showPlan(context: Context, plan: Plan, { json }: LaunchOptions): number {
  if (json) printJson(context, plan);
  else for (const line of planLines(plan)) printData(context, line);
  return exitCode('ok');
}

/** Where it would have waited; that nothing would do is said, and it waits then. */
async function clearRoom(context: Context, client: Client, recorded: Recorded): Promise<void> {
  const { plan, workload } = recorded;
  if (plan.chosen !== null) return;
  try {
    say(context, roomMadeText(await client.makeRoom(workload.id), workload.name));
  } catch (error) {
    if (!(error instanceof CliError) || !no_room.has(error.code)) throw error;
    say(context, error.message);
  }
}

const no_room = new Set(['room_changed', 'not_waiting']);

/** A name that was left out is made from the model's, and may be taken. */
function sayName(context: Context, { plan, workload }: Recorded): void {
  const { name } = plan.asked;
  if (workload.name === name) return;
  say(context, `It is called ${workload.name}: there is a ${name} already.`);
}

function withNearNames(error: unknown): never {
  if (error instanceof CliError) {
    const { model, class: class_name, image } = error.details;
    const names = (entries: readonly { name: string }[]) => entries.map((entry) => entry.name);
    const known: Record<string, () => string[]> = {
      unknown_model: () => nearNames(String(model), names(models)),
      unknown_class: () => nearNames(String(class_name), names(classes)),
      unknown_image: () => nearNames(String(image), names(images)),
    };
    const near = known[error.code]?.() ?? [];
    if (near.length > 0) error.fix = `did you mean ${near.join(' or ')}?`;
  }
  throw error;
}

async function leave(
  context: Context,
  client: Client,
  recorded: Recorded,
  options: LaunchOptions,
): Promise<number> {
  const { workload } = recorded;
  const key = await makeKey(client, workload);
  if (options.json) {
    printJson(context, documentOf(recorded, workload, key, 'detached'));
    return exitCode('ok');
  }
  printData(context, `id   ${workload.id}`);
  printData(context, `name ${workload.name}`);
  printReady(context, workload, key);
  sayDetached(context, workload);
  return exitCode('ok');
}

async function conclude(
  context: Context,
  client: Client,
  recorded: Recorded,
  outcome: AttachOutcome,
  options: LaunchOptions,
): Promise<number> {
  const { workload, ended } = outcome;
  const runs = ended === 'running';
  const key = runs ? await makeKey(client, workload) : null;
  const log_tail = ended === 'failed' ? await readTail(client, workload) : [];
  const differs = differenceOf(recorded.plan, workload);
  if (differs !== null) say(context, differs);
  sayOutcome(context, outcome, log_tail);
  if (options.json) {
    const error = failureOf(outcome)?.body().error ?? null;
    printJson(context, { ...documentOf(recorded, workload, key, ended), error, log_tail });
  } else if (runs) {
    printReady(context, workload, key);
    await openPage(context, workload, options);
  }
  return exitCode(exitOfEnd[ended]);
}

/** A notebook is there to be looked at: where somebody sits, its page is opened. */
async function openPage(
  context: Context,
  workload: Workload,
  options: LaunchOptions,
): Promise<void> {
  const is_seen = context.io.stdout.isTTY === true && options.open !== false;
  if (!is_seen || siteOf(workload.kind) === null) return;
  const { open } = await import('./open.ts');
  await open(context, workload.id, {});
}

/** Where it went elsewhere than planned (by then the place was taken), in words. */
export function differenceOf(plan: Plan, workload: Workload): string | null {
  const { chosen } = plan;
  const { placement } = workload;
  const taken = takenText(workload);
  if (taken !== null) return `Not as asked: ${taken}.`;
  if (chosen === null || placement === null) return null;
  const facts = ['machine_name', 'driver', 'isolation', 'placed_class'] as const;
  const changed = facts.filter((fact) => chosen[fact] !== placement[fact]);
  if (changed.length === 0) return null;
  const list = changed.map((fact) => `${placement[fact]} instead of ${chosen[fact]}`).join(', ');
  return `Not as planned: ${list}. Things changed between the plan and the placement.`;
}

async function makeKey(client: Client, workload: Workload): Promise<string | null> {
  if (workload.kind !== 'endpoint') return null;
  return (await client.createKey(workload.id, null)).key;
}

function documentOf(recorded: Recorded, workload: Workload, key: string | null, outcome: string) {
  const curl = key === null ? null : curlCommand(workload, key);
  const { request, plan } = recorded;
  const shown = shownRequest(request);
  return { outcome, request: shown, plan, workload, url: workload.url, key, curl };
}
