/**
 * `einsora open`: opens the dashboard, or the web page of a workload, in a browser that a link
 * signs in once.
 *
 * Invariants: the link's secret goes to the browser in a private file, never in an argument of a
 * program; a token that may sign nobody in opens the page for whom the browser is signed in as.
 */
import { siteOf } from '../core/images.ts';
import { CliError, reasonError } from './cli-error.ts';
import { type Client, openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { printData, printJson, say } from './output.ts';
import { onWorkload } from './workload-name.ts';

export type OpenOptions = { json?: boolean; browser?: boolean };

export async function open(
  context: Context,
  name: string | undefined,
  options: OpenOptions,
): Promise<number> {
  const client = openClient(context);
  const url = await linkTo(client, name === undefined ? null : await pageOf(client, name));
  const opened =
    options.browser !== false && (await context.io.openPage(url, context.config.data_dir));
  if (options.json) {
    printJson(context, { url, opened });
    return exitCode('ok');
  }
  printData(context, url);
  say(context, opened ? 'Opened in your browser.' : 'Open this link in a browser; it works once.');
  return exitCode('ok');
}

/** The dashboard's page that opens a workload. */
async function pageOf(client: Client, name: string): Promise<string> {
  const workload = await onWorkload(client, name, () => client.show(name));
  if (siteOf(workload.kind) === null) {
    throw reasonError('no_site', { name: workload.name, kind: workload.kind }, 'refused');
  }
  return `/open/${workload.id}`;
}

async function linkTo(client: Client, page: string | null): Promise<string> {
  try {
    const { url } = await client.createSignInLink();
    return page === null ? url : `${url}&next=${page}`;
  } catch (error) {
    const narrow = error instanceof CliError && error.code === 'token_too_narrow';
    if (page === null || !narrow) throw error;
    return new URL(page, client.url).href;
  }
}
