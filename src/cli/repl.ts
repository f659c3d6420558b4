/**
 * A conversation on a terminal: `>>>` asks, the answer streams, and the next question knows it.
 *
 * Invariants: Ctrl-C ends the answer and not the conversation; Ctrl-D ends it; a question that got
 * no answer at all is forgotten, a partial answer is kept as it was read.
 */
import { createInterface, type Interface } from 'node:readline';
import { plainText } from '../lib/text.ts';
import { type Ask, sayEnd, user } from './chat.ts';
import type { ChatMessage } from './chat-stream.ts';
import { CliError } from './cli-error.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { say, sayError } from './output.ts';

export async function converse(
  context: Context,
  workload: { name: string },
  ask: Ask,
  opening: ChatMessage[],
): Promise<number> {
  const { stdin, stdout } = context.io;
  const lines = createInterface({ input: stdin, output: stdout, terminal: true, prompt: '>>> ' });
  const nextLine = queueLines(lines);
  const messages = [...opening];
  let running: AbortController | null = null;
  lines.on('SIGINT', () => {
    if (running !== null) return running.abort();
    say(context, '\n(Ctrl-D ends the chat)');
    lines.prompt();
  });
  say(context, `${workload.name} listens. Ctrl-C ends an answer, Ctrl-D the chat.`);
  try {
    for (let line = await nextLine(); line !== null; line = await nextLine()) {
      const question = line.trim();
      if (question === '') continue;
      running = new AbortController();
      const answer = await answerLine(context, ask, [...messages, user(question)], running.signal);
      running = null;
      if (answer !== '') messages.push(user(question), { role: 'assistant', content: answer });
    }
  } finally {
    lines.close();
  }
  stdout.write('\n');
  return exitCode('ok');
}

/** Streams one answer; gives what came of it. */
async function answerLine(
  context: Context,
  ask: Ask,
  messages: ChatMessage[],
  signal: AbortSignal,
): Promise<string> {
  const { stdout } = context.io;
  try {
    const answer = await ask(messages, signal, (text) => stdout.write(plainText(text)));
    stdout.write('\n');
    sayEnd(context, answer);
    return answer.text;
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    sayError(context, error);
    if (error.exit === 'unreachable') throw error;
    return '';
  }
}

/** Prompts for a line, unless one was typed ahead already; null once the input has ended. */
function queueLines(lines: Interface): () => Promise<string | null> {
  const waiting: string[] = [];
  let closed = false;
  let wake = () => {};
  lines.on('line', (line) => {
    waiting.push(line);
    wake();
  });
  lines.on('close', () => {
    closed = true;
    wake();
  });
  return async () => {
    if (!closed) lines.prompt();
    while (waiting.length === 0 && !closed) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    return waiting.shift() ?? null;
  };
}
