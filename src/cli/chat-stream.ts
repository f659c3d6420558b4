/**
 * One answer of a model, streamed from the gateway.
 *
 * Invariants: an answer that was cut off is never taken for a whole one: it is whole only after
 * `[DONE]`; text is handed on as it arrives; aborting `signal` closes the connection at once, which
 * ends the work on the engine too.
 */
import type { IncomingMessage } from 'node:http';
import { CliError } from './cli-error.ts';
import { exitOfAnswer } from './exit-codes.ts';
import { openRequest, readText, requestIdOf } from './http.ts';
import { createSseParser } from './sse.ts';

export type ChatMessage = { role: 'system' | 'user' | 'assistant'; content: string };

export type ChatRequest = {
  model: string;
  messages: ChatMessage[];
  max_tokens?: number;
  temperature?: number;
};

export type Answer = {
  text: string;
  /** whole; interrupted: by the caller's signal; cut: the stream ended too early. */
  ended: 'whole' | 'interrupted' | 'cut';
  finish_reason: string | null;
  usage: Record<string, unknown> | null;
  served_by: string | null;
  request_id: string | null;
};

type ChatChunk = {
  error?: { message?: string; code?: string | number | null };
  usage?: Record<string, unknown> | null;
  choices?: { delta?: { content?: string | null }; finish_reason?: string | null }[];
};

/** Asks, and calls `onText` with each piece of the answer. A refusal is thrown as CliError. */
export async function streamAnswer(
  options: { url: string; key: string; request: ChatRequest; signal: AbortSignal },
  onText: (text: string) => void,
): Promise<Answer> {
  const answer: Answer = {
    text: '',
    ended: 'cut',
    finish_reason: null,
    usage: null,
    served_by: null,
    request_id: null,
  };
  try {
    const response = await openRequest({
      method: 'POST',
      url: options.url,
      headers: {
        authorization: `Bearer ${options.key}`,
        'content-type': 'application/json',
        accept: 'text/event-stream',
      },
      body: JSON.stringify({
        ...options.request,
        stream: true,
        stream_options: { include_usage: true },
      }),
      signal: options.signal,
    });
    answer.request_id = requestIdOf(response);
    answer.served_by = headerOf(response, 'x-einsora-served-by');
    if (response.statusCode !== 200) throw await refusal(response);
    await readStream(response, answer, onText);
  } catch (error) {
    if (options.signal.aborted) return { ...answer, ended: 'interrupted' };
    if (error instanceof CliError) throw error;
    // Nothing came at all: say what happened. After that, the caller says that it was cut off.
    if (answer.request_id === null && answer.text === '') throw unanswered(error);
  }
  return answer;
}

async function readStream(
  response: IncomingMessage,
  answer: Answer,
  onText: (text: string) => void,
): Promise<void> {
  // Whoever waited long is told who answered by comments, for the headers were gone by then.
  const parser = createSseParser((comment) => {
    const served_by = /^x-einsora-served-by: (.*)$/i.exec(comment)?.[1];
    if (served_by !== undefined) answer.served_by = served_by;
  });
  for await (const piece of response) {
    for (const data of parser.push(piece as Buffer)) {
      if (data.startsWith('[DONE]')) {
        answer.ended = 'whole';
        response.destroy();
        return;
      }
      takeChunk(JSON.parse(data) as ChatChunk, answer, onText);
    }
  }
}

function takeChunk(chunk: ChatChunk, answer: Answer, onText: (text: string) => void): void {
  if (chunk.error) {
    throw new CliError({
      code: String(chunk.error.code ?? 'answer_failed'),
      message: chunk.error.message ?? 'The model server failed while answering.',
      request_id: answer.request_id,
      exit: 'failed',
    });
  }
  const choice = chunk.choices?.[0];
  const text = choice?.delta?.content ?? '';
  if (text !== '') {
    answer.text += text;
    onText(text);
  }
  answer.finish_reason = choice?.finish_reason ?? answer.finish_reason;
  answer.usage = chunk.usage ?? answer.usage;
}

/** An error of the gateway, in OpenAI's shape. */
async function refusal(response: IncomingMessage): Promise<CliError> {
  const status = response.statusCode ?? 0;
  const text = await readText(response);
  let error: ChatChunk['error'];
  try {
    error = (JSON.parse(text) as ChatChunk).error;
  } catch {
    error = undefined;
  }
  const code = String(error?.code ?? `status_${status}`);
  return new CliError({
    code,
    message: error?.message ?? `The gateway answered with status ${status}.`,
    request_id: requestIdOf(response),
    exit: exitOfAnswer(status, code),
  });
}

function unanswered(error: unknown): CliError {
  const why = error instanceof Error ? error.message : String(error);
  return new CliError({
    code: 'answer_failed',
    message: `The control plane did not finish the answer: ${why}.`,
    fix: 'bin/einsora ls',
    exit: 'failed',
  });
}

function headerOf(response: IncomingMessage, name: string): string | null {
  const value = response.headers[name];
  return typeof value === 'string' ? value : null;
}
