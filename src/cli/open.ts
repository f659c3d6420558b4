/**
 * `einsora open`: opens the dashboard, signed in by a link that is good once.
 */
import { openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { printData, printJson, say } from './output.ts';

export type OpenOptions = { json?: boolean; browser?: boolean };

export async function open(context: Context, options: OpenOptions): Promise<number> {
  const { url } = await openClient(context).createSignInLink();
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
