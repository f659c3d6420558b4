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

/** One secret: after `question` on a terminal, else all of stdin without its last line break. */
export async function askSecret(context: Context, question: string): Promise<Secret> {
  const { stdin, stderr } = context.io;
  if (stdin.isTTY !== true) return new Secret(await readPipe(stdin));
  stderr.write(question);
  try {
    return new Secret(await readHidden(stdin));
  } finally {
    stderr.write('\n');
  }
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

/** Keys up to Enter, without echo where the terminal can do so. */
function readHidden(stdin: Io['stdin']): Promise<string> {
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
      settle();
    };
    const onEnd = () => end(() => resolve(text));
    const onData = (chunk: Buffer | string) => {
      for (const key of String(chunk)) {
        if (key === '\r' || key === '\n' || key === '\u0004') return end(() => resolve(text));
        if (key === '\u0003') return end(() => reject(interrupted()));
        if (key === '\u007f' || key === '\b') text = [...text].slice(0, -1).join('');
        else if (key >= ' ' && text.length < most_chars) text += key;
      }
    };
    raw(true);
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
