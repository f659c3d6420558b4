/**
 * `einsora chat`: asks an endpoint. With a message one answer on stdout; without, on a terminal, a
 * conversation; without, from a pipe, the message is what comes in.
 *
 * Invariants: the chat's own key is revoked at the end; an answer that was cut off is said and
 * fails.
 */
import type { NewModelKey } from '../contract/endpoint-sharing.ts';
import type { Workload } from '../contract/workloads.ts';
import { plainText } from '../lib/text.ts';
import { openInterrupt } from './attach.ts';
import { type ChatKey, type KeyMaker, openChatKey } from './chat-key.ts';
import { type Answer, type ChatMessage, streamAnswer } from './chat-stream.ts';
import { CliError, reasonError, usageError } from './cli-error.ts';
import { type Client, openClient } from './client.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { printJson, say, sayError } from './output.ts';
import { chatUrl, onWorkload } from './workload-name.ts';

export type ChatOptions = {
  system?: string;
  maxTokens?: number;
  temperature?: number;
  json?: boolean;
};

/** Asks with the whole conversation so far. */
export type Ask = (
  messages: ChatMessage[],
  signal: AbortSignal,
  onText: (text: string) => void,
) => Promise<Answer>;

const input_limit_bytes = 1024 * 1024;

export async function chat(
  context: Context,
  name: string,
  message: string | undefined,
  options: ChatOptions,
): Promise<number> {
  const { io } = context;
  const client = openClient(context);
  const asked = await (name.includes('/') ? openedModel(client, name) : ownEndpoint(client, name));
  const talks = message === undefined && io.stdin.isTTY === true;
  if (talks && options.json) throw usageError('chat --json needs a message.');
  const question = talks ? '' : (message ?? (await readInput(context)));
  if (!talks && question.trim() === '') throw usageError('There is no message to send.');
  const key = openChatKey(asked.keys, io.clock);
  const ask = createAsk(asked, key, options);
  const opening: ChatMessage[] =
    options.system === undefined ? [] : [{ role: 'system', content: options.system }];
  try {
    if (!talks) return await answerOnce(context, asked, ask, [...opening, user(question)], options);
    const { converse } = await import('./repl.ts');
    return await converse(context, asked, ask, opening);
  } finally {
    await key.close();
  }
}

export function user(content: string): ChatMessage {
  return { role: 'user', content };
}

/** Says on stderr what is to be said about how an answer ended. */
export function sayEnd(context: Context, answer: Answer): void {
  if (answer.ended === 'cut') sayError(context, cutOff(answer));
  if (answer.ended === 'interrupted') say(context, '(interrupted)');
  if (answer.ended === 'whole' && answer.finish_reason === 'length') {
    say(context, '(ended at its length limit; --max-tokens or a longer context give more)');
  }
}

/** Whom a chat asks: an endpoint of one's own, or of others that is open (`tenant/name`). */
export type AskedEndpoint = { name: string; url(): string; keys: KeyMaker };

async function ownEndpoint(client: Client, name: string): Promise<AskedEndpoint> {
  const workload = await onWorkload(client, name, () => client.show(name));
  const { id } = workload;
  const url = chatUrlOf(workload);
  const keys: KeyMaker = {
    make: (expires_in_ms) => client.createKey(id, expires_in_ms),
    revoke: (key_id) => client.revokeKey(id, key_id),
  };
  return { name: workload.name, url: () => url, keys };
}

/** Where it answers is told with the key, for of the workload itself nothing is (ADR-0058). */
async function openedModel(client: Client, name: string): Promise<AskedEndpoint> {
  let base_url = '';
  const keys: KeyMaker = {
    async make(expires_in_ms) {
      const body = { models: [name], expires_in_ms };
      const made = await client.call<NewModelKey>('POST', '/v1/model-keys', { body, once: true });
      base_url = made.base_url;
      return made;
    },
    revoke: (id) => client.call<null>('DELETE', `/v1/model-keys/${encodeURIComponent(id)}`),
  };
  return { name, url: () => chatUrl(base_url), keys };
}

async function answerOnce(
  context: Context,
  workload: Pick<AskedEndpoint, 'name'>,
  ask: Ask,
  messages: ChatMessage[],
  options: ChatOptions,
): Promise<number> {
  const interrupt = openInterrupt(context.io);
  try {
    const answer = await ask(messages, interrupt.signal, (text) => {
      if (!options.json) context.io.stdout.write(plainText(text));
    });
    if (options.json) {
      const { text, ended, finish_reason, usage, served_by, request_id } = answer;
      const error = ended === 'cut' ? cutOff(answer).body().error : null;
      printJson(context, {
        workload: workload.name,
        answer: text,
        ended,
        finish_reason,
        usage,
        served_by,
        request_id,
        error,
      });
    } else if (!answer.text.endsWith('\n')) {
      context.io.stdout.write('\n');
    }
    sayEnd(context, answer);
    if (answer.ended === 'interrupted') return exitCode('interrupted');
    return exitCode(answer.ended === 'cut' ? 'failed' : 'ok');
  } finally {
    interrupt.close();
  }
}

function createAsk({ name, url }: AskedEndpoint, key: ChatKey, options: ChatOptions): Ask {
  const { maxTokens, temperature } = options;
  return async (messages, signal, onText) => {
    const request = {
      model: name,
      messages,
      ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
      ...(temperature === undefined ? {} : { temperature }),
    };
    const secret = await key.current();
    return streamAnswer({ url: url(), key: secret.reveal(), request, signal }, onText);
  };
}

/** Where the endpoint answers, or the failure that says why it cannot. */
function chatUrlOf(workload: Workload): string {
  const { name, kind, state, url } = workload;
  if (kind !== 'endpoint')
    throw usageError(`${name} is no endpoint but a ${kind}: it cannot chat.`);
  if (state === 'running' && url !== null) return chatUrl(url);
  const error = reasonError('not_ready', { name, state }, 'refused');
  if (state === 'stopped') error.fix = `bin/einsora start ${name}`;
  throw error;
}

function cutOff(answer: Answer): CliError {
  return new CliError({
    code: 'answer_cut',
    message: 'The answer was cut off before its end.',
    fix: 'ask again, or look at: bin/einsora ls',
    request_id: answer.request_id,
    exit: 'failed',
  });
}

async function readInput(context: Context): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of context.io.stdin) {
    const buffer = Buffer.from(chunk as Uint8Array);
    bytes += buffer.length;
    if (bytes > input_limit_bytes) throw usageError('The message is over 1 MB.');
    chunks.push(buffer);
  }
  return Buffer.concat(chunks).toString('utf8');
}
