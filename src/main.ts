/**
 * The command line: one entry for each command, which loads its file only when it is called.
 *
 * Invariants: help and usage errors load no command and no schema; `--data-dir` works on every command,
 * before and after its name; exit codes are those of src/cli/exit-codes.ts.
 */
import { Argument, Command, CommanderError, Option } from 'commander';
import { CliError } from './cli/cli-error.ts';
import { type Environment, loadConfig } from './cli/config.ts';
import { exitCode } from './cli/exit-codes.ts';
import { type Context, type Io, processIo } from './cli/io.ts';
import { printJson, sayError } from './cli/output.ts';
import {
  parseAmount,
  parseCount,
  parseCountOrZero,
  parseDuration,
  parsePort,
} from './cli/parse.ts';
import { programVersion } from './cli/version.ts';

type Go = <A extends unknown[]>(
  work: (context: Context, ...args: A) => Promise<number>,
) => (...args: A) => Promise<void>;

/** Runs one command line; resolves with the exit code. `env` is the process's own unless given. */
export async function main(argv: string[], io: Io, env?: Environment): Promise<number> {
  let code = exitCode('ok');
  const go: Go = (work) => {
    return async (...args) => {
      const data_dir = program.opts<{ dataDir?: string }>().dataDir;
      const context = { config: loadConfig({ data_dir }, env), io };
      const command: unknown = args.at(-1);
      const json = command instanceof Command && command.opts()['json'] === true;
      code = await settle(context, json, () => work(context, ...args));
    };
  };
  const program = createProgram(io, go);
  try {
    await program.parseAsync(argv.length === 0 ? ['--help'] : argv, { from: 'user' });
    return code;
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return error.exitCode === 0 ? exitCode('ok') : exitCode('usage');
  }
}

/** The whole program, without running it. */
export function createProgram(io: Pick<Io, 'stdout' | 'stderr'>, go: Go): Command {
  const program = new Command('einsora')
    .description('A free, self-hosted GPU cloud for the machines you have.')
    .option('--data-dir <dir>', 'data folder of the control plane (or EINSORA_DATA_DIR)')
    .version(programVersion(), '-V, --version', 'print the version')
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
    })
    .exitOverride();
  addServing(program, go);
  addLaunch(program, go);
  addUse(program, go);
  addWorkloads(program, go);
  addCluster(program, go);
  return program;
}

const json_text = 'print one JSON document';
const timeout_text = 'wait at most so long (90s, 10m), then leave it going on';

function addServing(program: Command, go: Go): void {
  program
    .command('up')
    .description('serve the control plane and run workloads on this machine')
    .option('--port <port>', 'port to serve on; 0 takes any', parsePort)
    .option('--no-open', 'do not open a browser')
    .option('--offer-cpu <cores>', 'CPU that workloads may use', parseAmount)
    .option('--offer-memory <size>', 'memory that workloads may use, such as 4GiB')
    .addOption(new Option('--dev', 'add the driver sim, which only pretends').hideHelp())
    .action(go(async ({ config }, options) => (await import('./cli/up.ts')).up(options, config)));
  program
    .command('doctor')
    .description('what this machine can run, what it cannot, why, and what helps')
    .option('--json', json_text)
    .action(
      go(async ({ config }, options) => (await import('./cli/doctor.ts')).doctor(options, config)),
    );
}
