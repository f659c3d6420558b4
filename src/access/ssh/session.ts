/**
 * A session channel: a shell, a command or the files of the run.
 *
 * Invariants: one of them per channel, once; what is asked for before it begins is bounded; a
 * program ends with its channel, and the channel with its program, after all of its output.
 */
import { limits } from '../../contract/limits.ts';
import type { ExecAsk, ExecSession, RunFiles } from '../../lib/session.ts';
import { type Channel, pump } from './channel.ts';
import type { Session } from './connection.ts';
import { serveSftp } from './sftp.ts';

export type SessionDeps = {
  exec(ask: ExecAsk, signal: AbortSignal): Promise<ExecSession>;
  files(): Promise<RunFiles>;
  /** What to tell a person of something that failed. */
  explain(error: unknown): string;
};

type Size = { columns: number; rows: number };

export class SshSession implements Session {
  readonly #channel: Channel;
  readonly #deps: SessionDeps;
  readonly #env: Record<string, string> = {};
  #env_bytes = 0;
  #terminal: Size | null = null;
  #is_begun = false;
  #program: ExecSession | null = null;

  constructor(channel: Channel, deps: SessionDeps) {
    this.#channel = channel;
    this.#deps = deps;
  }

  request(type: string, data: unknown): boolean {
    if (type === 'env') return this.#setVariable(data as { name: string; value: string });
    if (type === 'pty-req') return this.#makeTerminal(data as TerminalAsk);
    if (type === 'window-change') return this.#resize(data as TerminalAsk);
    if (type === 'signal') return this.#signal(String(data));
    if (type === 'shell') return this.#begin([]);
    if (type === 'exec') return this.#begin(['/bin/sh', '-c', String(data)]);
    if (type === 'subsystem') return this.#beginSubsystem(String(data));
    // Among them x11-req and auth-agent-req@openssh.com: OpenSSH says what was refused.
    return false;
  }

  #setVariable({ name, value }: { name: string; value: string }): boolean {
    this.#env_bytes += name.length + value.length;
    const is_fine = /^[A-Za-z_]\w{0,99}$/.test(name) && !value.includes('\0');
    if (this.#is_begun || !is_fine || this.#env_bytes > limits.ssh_env_bytes) return false;
    this.#env[name] = value;
    return true;
  }

  #makeTerminal(asked: TerminalAsk): boolean {
    if (this.#is_begun || this.#terminal !== null) return false;
    this.#terminal = sizeOf(asked);
    const { term = '' } = asked;
    if (/^[\w.+-]{1,64}$/.test(term)) this.#env.TERM = term;
    return true;
  }

  #resize(asked: TerminalAsk): boolean {
    if (this.#terminal === null) return false;
    this.#terminal = sizeOf(asked);
    this.#program?.resize(this.#terminal.columns, this.#terminal.rows);
    return true;
  }

  /** A terminal's own signals go where the terminal sends them; others end the program. */
  #signal(name: string): boolean {
    const program = this.#program;
    if (program === null) return false;
    const typed = this.#terminal === null ? undefined : typed_signals[name];
    if (typed !== undefined) program.stdin.write(typed);
    else if (ending_signals.has(name)) program.kill();
    else return false;
    return true;
  }

  #begin(argv: string[]): boolean {
    if (this.#is_begun) return false;
    this.#is_begun = true;
    void this.#run(argv);
    return true;
  }

  #beginSubsystem(name: string): boolean {
    if (this.#is_begun || name !== 'sftp') return false;
    this.#is_begun = true;
    void serveSftp(this.#channel, this.#deps.files, this.#deps.explain);
    return true;
  }

  /** A program from its start to its end. */
  async #run(argv: string[]): Promise<void> {
    const channel = this.#channel;
    const gone = new AbortController();
    void channel.closed.then(() => gone.abort());
    try {
      const program = await this.#start(argv, gone.signal);
      await Promise.all([
        pump(program.stdout, channel),
        program.stderr === null ? undefined : pump(program.stderr, channel, 'stderr'),
      ]);
      channel.finish(await program.exited);
    } catch (error) {
      const newline = this.#terminal === null ? '\n' : '\r\n';
      const text = `einsora: ${this.#deps.explain(error)}${newline}`;
      await channel.write(Buffer.from(text), 'stderr');
      channel.finish({ code: 255, signal: null });
    }
  }

  async #start(argv: string[], signal: AbortSignal): Promise<ExecSession> {
    const { input, closed } = this.#channel;
    const terminal = this.#terminal;
    const ask = { argv, env: this.#env, cwd: null, terminal };
    const program = await this.#deps.exec(ask, signal);
    void closed.then(() => program.kill());
    this.#program = program;
    const now = this.#terminal;
    if (now !== null && now !== terminal) program.resize(now.columns, now.rows);
    // What it does not read is dropped, so that the client can go on to the end.
    const drop = () => input.resume();
    program.stdin.on('error', drop).once('close', drop);
    input.pipe(program.stdin);
    return program;
  }
}

type TerminalAsk = { term?: string; cols: number; rows: number };

const typed_signals: Readonly<Record<string, string>> = { INT: '\x03', QUIT: '\x1c' };
const ending_signals = new Set(['HUP', 'INT', 'KILL', 'QUIT', 'TERM', 'ABRT']);

/** Zero: the client does not know. */
function sizeOf({ cols, rows }: TerminalAsk): Size {
  return { columns: cols === 0 ? 80 : cols, rows: rows === 0 ? 24 : rows };
}
