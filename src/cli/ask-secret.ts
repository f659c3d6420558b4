/**
 * Asks for what must not be seen: typed without echo, or read from a pipe. Never from arguments.
 *
 * Invariants: nothing that is typed is written anywhere; the terminal is as before when it ends,
 * by Ctrl-C too; one line, without its end, of at most `most_chars`.
 */
import { Secret } from '../lib/secret.ts';
import { CliError, usageError } from './cli-error.ts';
import type { Context, Io } from './io.ts';

const most_chars = 64 * 1024;

/** One line that may be seen, asked on a terminal; null where there is no terminal. */
export async function askLine(context: Context, question: string): Promise<string | null> {
  const { stdin, stderr } = context.io;
  if (stdin.isTTY !== true) return null;
  const answer = await readKeys(context.io, question, (key) => stderr.write(key));
  return answer.trim();
}

/** Lines of a pipe, such as a password and the one that it becomes. */
export async function readLines(context: Context, count: number): Promise<Secret[]> {
  const lines = (await readPipe(context.io.stdin)).split(/\r?\n/);
  if (lines.length !== count) {
    throw usageError(`stdin holds ${lines.length} lines, ${count} are wanted.`);
  }
  return lines.map((line) => new Secret(line));
}

/** One secret: after `question` on a terminal, else all of stdin without its last line break. */
export async function askSecret(context: Context, question: string): Promise<Secret> {
  const { stdin } = context.io;
  if (stdin.isTTY !== true) return new Secret(await readPipe(stdin));
  return new Secret(await readKeys(context.io, question));
}

async function readPipe(stdin: Io['stdin']): Promise<string> {
  let text = '';
  stdin.setEncoding('utf8');
  for await (const chunk of stdin) {
    text += chunk;
    if (text.length > most_chars) throw usageError('what stdin holds is too long for a secret');
  }
  return text.replace(/\r?\n$/, '');
}

/** Keys up to Enter, without the terminal's own echo where it can do so; `echo` shows them. */
function readKeys(
  { stdin, stderr }: Io,
  question: string,
  echo?: (key: string) => void,
): Promise<string> {
  const raw = (on: boolean) => {
    if ('setRawMode' in stdin && typeof stdin.setRawMode === 'function') stdin.setRawMode(on);
  };
  return new Promise((resolve, reject) => {
    let text = '';
    const end = (settle: () => void) => {
      stdin.off('data', onData);
      stdin.off('end', onEnd);
      stdin.pause();
      raw(false);
      stderr.write('\n');
      settle();
    };
    const onEnd = () => end(() => resolve(text));
    const onData = (chunk: Buffer | string) => {
      const keys = [...String(chunk)];
      if (keys[0] === '\u001b') return; // an arrow or another key that is no text
      for (const [index, key] of keys.entries()) {
        if (key === '\r' || key === '\n' || key === '\u0004') {
          // What was pasted beyond this line belongs to the next question.
          const rest = keys.slice(index + 1).join('');
          return end(() => {
            if (rest !== '') stdin.unshift(rest);
            resolve(text);
          });
        }
        if (key === '\u0003') return end(() => reject(interrupted()));
        if (key === '\u007f' || key === '\b') {
          if (text !== '') echo?.('\b \b');
          text = [...text].slice(0, -1).join('');
        } else if (key >= ' ' && text.length < most_chars) {
          text += key;
          echo?.(key);
        }
      }
    };
    // Before the question: whoever answers at once must not be echoed by the terminal itself.
    raw(true);
    stderr.write(question);
    stdin.setEncoding('utf8');
    stdin.on('data', onData);
    stdin.on('end', onEnd);
    stdin.resume();
  });
}

function interrupted(): CliError {
  const message = 'Left without an answer; nothing was changed.';
  return new CliError({ code: 'interrupted', message, exit: 'interrupted' });
}
