/**
 * Files of a workload, as the command line reaches them.
 *
 * Invariants: content goes through in bounded memory; what is cut off is an error, never a short
 * file; every failure of the control plane is a CliError.
 */
import { type IncomingMessage, request } from 'node:http';
import { PassThrough, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { FileFacts } from '../lib/session.ts';
import { CliError } from './cli-error.ts';
import { openClient, readAnswer } from './client.ts';
import { findConnection, unreachablePlace } from './connection.ts';
import { isRefused, readText, requestIdOf } from './http.ts';
import type { Context } from './io.ts';

type Page = { items: FileFacts[]; next_cursor: string | null };

export type WorkloadFiles = {
  /** Null where there is nothing. */
  stat(path: string): Promise<FileFacts | null>;
  list(path: string): AsyncGenerator<FileFacts>;
  /** The content, and its permission bits. */
  read(path: string): Promise<{ content: Readable; mode: number }>;
  write(path: string, content: Readable, mode: number): Promise<void>;
  /** One that is there already is no failure. */
  makeFolder(path: string): Promise<void>;
};

export function openFiles(context: Context, workload: string): WorkloadFiles {
  const client = openClient(context);
  const place = findConnection(context.config);
  const base = `/v1/workloads/${encodeURIComponent(workload)}/files`;
  const at = (rest: string, path: string) => `${base}${rest}?path=${encodeURIComponent(path)}`;
  const send = createSender(context, place);

  return {
    async stat(path) {
      try {
        return await client.call<FileFacts>('GET', at('/facts', path));
      } catch (error) {
        if (error instanceof CliError && error.code === 'file_not_found') return null;
        throw error;
      }
    },
    async *list(path) {
      let cursor: string | null = null;
      do {
        const more: string = cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`;
        const page: Page = await client.call<Page>('GET', `${at('/entries', path)}${more}`);
        yield* page.items;
        cursor = page.next_cursor;
      } while (cursor !== null);
    },
    async read(path) {
      const answer = await send('GET', at('', path));
      const mode = Number.parseInt(String(answer.headers['x-einsora-mode'] ?? '644'), 8);
      const content = new PassThrough();
      pipeline(answer, content).catch((error) => content.destroy(cutOff(error)));
      return { content, mode };
    },
    async write(path, content, mode) {
      const bits = (mode & 0o777).toString(8).padStart(3, '0');
      const answer = await send('PUT', `${at('', path)}&mode=${bits}`, content);
      answer.resume();
    },
    async makeFolder(path) {
      try {
        await client.call('POST', at('/folders', path));
      } catch (error) {
        const facts = error instanceof CliError ? await this.stat(path) : null;
        if (facts?.kind !== 'folder') throw error;
      }
    },
  };
}

/** Asks for the head of an answer that says yes; what says no is thrown. */
function createSender(context: Context, place: ReturnType<typeof findConnection>) {
  const headers = { authorization: `Bearer ${place.token.reveal()}` };
  return async function send(
    method: string,
    path: string,
    body?: Readable,
  ): Promise<IncomingMessage> {
    const url = new URL(path, place.url);
    const secure = url.protocol === 'https:' ? (await import('node:https')).request : null;
    const sent = (secure ?? request)(url, { method, headers });
    const answered = new Promise<IncomingMessage>((resolve, reject) => {
      sent.once('response', resolve);
      sent.once('error', reject);
    });
    answered.catch(() => {});
    if (body === undefined) sent.end();
    const writing = body === undefined ? null : pipeline(body, sent);
    try {
      // A refusal may come while much is still to be sent.
      const answer = await (writing === null
        ? answered
        : Promise.race([answered, failing(writing)]));
      if ((answer.statusCode ?? 0) < 300) return answer;
      const text = await readText(answer);
      const status = answer.statusCode ?? 0;
      readAnswer({ status, request_id: requestIdOf(answer), cookies: [], text });
      throw new Error('what answers is not Einsora');
    } catch (error) {
      sent.destroy();
      if (isRefused(error)) throw unreachablePlace(context.config, place);
      if (error instanceof CliError) throw error;
      throw cutOff(error);
    }
  };
}

/** Settles only by failing: that all was sent says nothing yet. */
function failing(writing: Promise<void>): Promise<never> {
  return new Promise((_, reject) => {
    writing.catch(reject);
  });
}

function cutOff(error: unknown): CliError {
  if (error instanceof CliError) return error;
  return new CliError({
    code: 'connection_lost',
    message: `The copy was cut off: ${error instanceof Error ? error.message : String(error)}.`,
    fix: 'do it again: what was there before is unchanged',
    exit: 'connection_lost',
  });
}
