/**
 * `einsora models`: what the machines keep; pulled before it is needed, removed when it is not.
 *
 * Invariants: a pull goes on without its command (Ctrl-C, --detach); a model is named by its id,
 * its source, or the name of its file where only one has it.
 */
import type { ModelFile } from '../contract/model-files.ts';
import { formatBytes } from '../core/format.ts';
import { openInterrupt } from './attach.ts';
import { CliError, suggested } from './cli-error.ts';
import { allPages, type Client, openClient, type Page, withQuery } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { cutTo, oneLine, printData, printJson, printTable, say, tint } from './output.ts';
import { type Look, pullLine, shortName, withLook } from './pull-view.ts';

export type JsonOption = { json?: boolean };
export type PullOptions = JsonOption & { machine?: string; detach?: boolean };

const poll_ms = 250;
const removal_ms = 30_000;
const models_ls = 'bin/einsora models ls';
const pathOf = (file: ModelFile | string) =>
  `/v1/model-files/${encodeURIComponent(typeof file === 'string' ? file : file.id)}`;

export async function listModels(context: Context, options: JsonOption): Promise<number> {
  const items = await allModels(openClient(context));
  if (options.json) printJson(context, { items });
  else if (items.length === 0) {
    say(context, `No models yet. Try: ${suggested(context.config, 'models pull smollm2-135m')}`);
  } else {
    const headings = ['ID', 'MODEL', 'SIZE', 'STATE', 'MACHINE', 'USED BY'];
    printTable(context, headings, items.map(row));
    for (const { source, reason } of items) {
      if (reason === null) continue;
      say(context, `${shortName(source)}: ${oneLine(reason.message)}`);
      if (reason.fix !== null) say(context, `  fix: ${oneLine(reason.fix)}`);
    }
  }
  return exitCode('ok');
}

function row(file: ModelFile): string[] {
  const { id, source, bytes, state, machine_name, in_use_by, done_bytes, total_bytes } = file;
  const part = done_bytes === null || !total_bytes ? '' : ` ${percent(done_bytes, total_bytes)}`;
  const size = bytes ?? total_bytes;
  const users = in_use_by.join(', ');
  const shown = size === null ? '' : formatBytes(size);
  return [id.slice(0, 12), shortRevision(source), shown, `${state}${part}`, machine_name, users];
}

/** A commit by its first digits: the whole of it is in --json. */
function shortRevision(source: string): string {
  return source.replace(/@([0-9a-f]{12})[0-9a-f]{28}\//, '@$1/');
}

function percent(done: number, total: number): string {
  return `${Math.floor((100 * done) / total)}%`;
}

export async function pullModel(
  context: Context,
  model: string,
  options: PullOptions,
): Promise<number> {
  const client = openClient(context);
  const interrupt = openInterrupt(context.io);
  try {
    const machine = options.machine === undefined ? {} : { machine: options.machine };
    const body = { model, ...machine };
    let file = await client.call<ModelFile>('POST', '/v1/model-files', { body, once: true });
    if (!options.detach) file = await watchPull(context, client, file, interrupt.signal);
    if (options.json) printJson(context, file);
    if (file.state === 'failed') return failed(context, file);
    if (file.state !== 'ready') {
      say(context, `It goes on without this command: ${suggested(context.config, 'models ls')}`);
      return exitCode(interrupt.signal.aborted ? 'interrupted' : 'ok');
    }
    if (!options.json) printData(context, file.source);
    return exitCode('ok');
  } finally {
    interrupt.close();
  }
}

/** Shows how far it is until it is there, failed, or nobody wants to watch any more. */
async function watchPull(
  context: Context,
  client: Client,
  first: ModelFile,
  interrupt: AbortSignal,
): Promise<ModelFile> {
  const { io, config } = context;
  const rewrites = io.stderr.isTTY === true && config.can_rewrite;
  let file = first;
  let looks: Look[] = [];
  let told = -1;
  const clear = () => rewrites && io.stderr.write('\r\u001b[K');
  try {
    while (!interrupt.aborted && !isOver(file)) {
      if (file.done_bytes !== null) {
        looks = withLook(looks, { at: io.clock.monotonic(), done_bytes: file.done_bytes });
      }
      const line = pullLine(file, looks);
      const quarter = Math.floor((4 * (file.done_bytes ?? 0)) / (file.total_bytes || 1));
      if (rewrites) io.stderr.write(`\r\u001b[K${cutTo(line, (io.stderr.columns || 80) - 1)}`);
      else if (quarter !== told) say(context, line);
      told = quarter;
      await io.clock.sleep(poll_ms, interrupt);
      file = await client.call<ModelFile>('GET', pathOf(file));
    }
  } finally {
    clear();
  }
  if (file.state === 'ready') {
    const mark = tint(context, io.stderr, 'green', '✔');
    const size = file.bytes === null ? '' : `  ${formatBytes(file.bytes)}`;
    const said = file.checked === null ? '' : `  ${oneLine(file.checked.message)}`;
    say(context, `${mark} ${shortName(file.source)}${size}${said}`);
  }
  return file;
}

function isOver({ state, checked, bytes }: ModelFile): boolean {
  // Here before it was asked for: looked at once more, which may take a moment.
  return state === 'failed' || (state === 'ready' && (checked !== null || bytes === null));
}

function failed(context: Context, file: ModelFile): number {
  const { reason } = file;
  const mark = tint(context, context.io.stderr, 'red', '✘');
  say(context, `${mark} ${reason === null ? 'It failed.' : oneLine(reason.message)}`);
  if (reason?.fix) say(context, `  fix: ${oneLine(reason.fix)}`);
  return exitCode('failed');
}

export async function removeModels(
  context: Context,
  names: string[],
  options: JsonOption,
): Promise<number> {
  const client = openClient(context);
  const all = await allModels(client);
  const found = names.map((name) => findModelFile(all, name));
  for (const file of found) {
    await client.call<ModelFile>('DELETE', pathOf(file));
    await untilGone(context, client, file);
    if (!options.json) say(context, `${shortName(file.source)} is gone.`);
  }
  if (options.json) printJson(context, { items: found.map(({ id }) => ({ id, removed: true })) });
  return exitCode('ok');
}

async function untilGone(context: Context, client: Client, file: ModelFile): Promise<void> {
  const { clock } = context.io;
  const until = clock.monotonic() + removal_ms;
  while (clock.monotonic() < until) {
    try {
      await client.call<ModelFile>('GET', pathOf(file));
    } catch (error) {
      if (error instanceof CliError && error.code === 'not_found') return;
      throw error;
    }
    await clock.sleep(poll_ms);
  }
  const message = `${file.machine_name} has not said yet that ${shortName(file.source)} is gone.`;
  throw new CliError({ code: 'timed_out', message, fix: models_ls, exit: 'failed' });
}

/** The machine's own check of a model that it keeps. */
export async function checkModel(
  context: Context,
  name: string,
): Promise<{ source: string; checked: NonNullable<ModelFile['checked']> }> {
  const client = openClient(context);
  const before = findModelFile(await allModels(client), name);
  if (before.state !== 'ready') throw notThere(before);
  let file = await client.call<ModelFile>('POST', `${pathOf(before)}/validate`);
  const { clock } = context.io;
  const until = clock.monotonic() + removal_ms;
  while (file.checked === null || file.checked.at === before.checked?.at) {
    if (clock.monotonic() > until) {
      const message = `${file.machine_name} has not said yet what it found.`;
      throw new CliError({ code: 'timed_out', message, fix: models_ls, exit: 'failed' });
    }
    await clock.sleep(poll_ms);
    file = await client.call<ModelFile>('GET', pathOf(before));
  }
  return { source: file.source, checked: file.checked };
}

/** Nothing can be checked of what is not there whole. */
function notThere({ source, state, machine_name, reason }: ModelFile): CliError {
  const why = reason === null ? '' : `: ${reason.message.replace(/\.$/, '')}`;
  const message = `${shortName(source)} is ${state} on ${machine_name}${why}.`;
  return new CliError({ code: 'not_ready', message, fix: models_ls, exit: 'refused' });
}

async function allModels(client: Client): Promise<ModelFile[]> {
  return allPages((cursor) =>
    client.call<Page<ModelFile>>('GET', withQuery('/v1/model-files', { cursor })),
  );
}

function findModelFile(all: readonly ModelFile[], name: string): ModelFile {
  const by = [
    ({ id, source }: ModelFile) => [id, source, shortRevision(source)].includes(name),
    (file: ModelFile) => name.length >= 6 && file.id.startsWith(name),
    (file: ModelFile) => shortName(file.source) === name,
    (file: ModelFile) => file.source.replace(/@[0-9a-f]{40}/, '').startsWith(name),
  ];
  for (const fits of by) {
    const found = all.filter(fits);
    if (found.length === 1 && found[0] !== undefined) return found[0];
    if (found.length > 1) {
      const ids = found.map((file) => `${file.id.slice(0, 12)} (${file.machine_name})`).join(', ');
      const message = `${name} names ${found.length} models: ${ids}.`;
      throw new CliError({ code: 'bad_request', message, fix: 'give an id', exit: 'usage' });
    }
  }
  const message = `There is no model ${name} on a machine.`;
  throw new CliError({ code: 'not_found', message, fix: models_ls, exit: 'not_found' });
}
