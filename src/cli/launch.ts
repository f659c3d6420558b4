/**
 * `einsora launch`: the plan, the record, the stages, and how to call what runs.
 *
 * Invariants: the plan is shown before anything is recorded; leaving (Ctrl-C, --detach, --timeout)
 * never undoes what is recorded; the key is made once and printed once.
 */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Launch, Plan, Workload } from '../contract/workloads.ts';
import { classes, findModel, models } from '../core/catalog.ts';
import type { Kind } from '../core/workload.ts';
import { type AttachOutcome, attach, openInterrupt } from './attach.ts';
import { CliError } from './cli-error.ts';
import { type Client, openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { exitOfEnd, failureOf, readTail, sayDetached, sayOutcome } from './outcome.ts';
import { printData, printJson, say } from './output.ts';
import { planLines } from './plan-view.ts';
import { curlCommand, printReady } from './ready.ts';
import { nearNames } from './suggest.ts';

export type LaunchOptions = {
  name?: string;
  class?: string;
  contextLength?: number;
  parallel?: number;
  accelerator?: 'cpu' | 'nvidia' | 'apple';
  detach?: boolean;
  json?: boolean;
  /** Milliseconds. */
  timeout?: number;
};

type Recorded = { request: Launch; plan: Plan; workload: Workload };

export async function launch(
  context: Context,
  kind: Kind,
  model: string | undefined,
  options: LaunchOptions,
): Promise<number> {
  const client = openClient(context);
  const interrupt = openInterrupt(context.io);
  try {
    const request = launchRequest(context.io.cwd, kind, model, options);
    const plan = await client.plan(request).catch(withNearNames);
    if (!options.json) for (const line of planLines(plan)) say(context, line);
    if (interrupt.signal.aborted) return exitCode('interrupted');
    const recorded = { request, plan, workload: await client.launch(request) };
    sayName(context, recorded);
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

/** A name that was left out is made from the model's, and may be taken. */
function sayName(context: Context, { plan, workload }: Recorded): void {
  const { name } = plan.asked;
  if (workload.name === name) return;
  say(context, `It is called ${workload.name}: there is a ${name} already.`);
}

/** What is sent: nothing that was not asked for, and a model file by its absolute path. */
export function launchRequest(
  cwd: string,
  kind: Kind,
  model: string | undefined,
  options: LaunchOptions,
): Launch {
  const { name, contextLength, parallel, accelerator } = options;
  const model_params = {
    ...(contextLength === undefined ? {} : { context_length: contextLength }),
    ...(parallel === undefined ? {} : { parallel }),
  };
  return {
    kind,
    ...(name === undefined ? {} : { name }),
    ...(model === undefined ? {} : { model: modelSource(cwd, model) }),
    ...(Object.keys(model_params).length === 0 ? {} : { model_params }),
    ...(accelerator === undefined ? {} : { accelerator }),
    ...(options.class === undefined ? {} : { gpu_class: options.class }),
  };
}

/** A name of the catalog and a URL stay; what looks like a file, or is one, becomes absolute. */
function modelSource(cwd: string, model: string): string {
  if (findModel(model) !== null || /^[a-z][a-z0-9+-]*:/i.test(model)) return model;
  if (/^(?:www\.)?(?:hf\.co|huggingface\.co)\//i.test(model)) return model;
  const looks_like_file = /^\.{0,2}\//.test(model) || model.endsWith('.gguf');
  return looks_like_file || existsSync(resolve(cwd, model)) ? resolve(cwd, model) : model;
}

function withNearNames(error: unknown): never {
  if (error instanceof CliError) {
    const { model, class: class_name } = error.details;
    const near =
      error.code === 'unknown_model'
        ? nearNames(
            String(model),
            models.map((entry) => entry.name),
          )
        : error.code === 'unknown_class'
          ? nearNames(
              String(class_name),
              classes.map((entry) => entry.name),
            )
          : [];
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
  }
  return exitCode(exitOfEnd[ended]);
}

/** Where it went elsewhere than planned (by then the place was taken), in words. */
export function differenceOf(plan: Plan, { placement }: Workload): string | null {
  const { chosen } = plan;
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
  return { outcome, request, plan, workload, url: workload.url, key, curl };
}
