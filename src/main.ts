/**
 * The command line: one entry for each command, which loads its file only when it is called.
 *
 * Invariants: help and usage errors load no command and no schema; `--data-dir` works on every
 * command, before and after its name; exit codes are those of src/cli/exit-codes.ts.
 */
import { Command, CommanderError, Option } from 'commander';
import { asCliError, fixHere } from './cli/cli-error.ts';
import { addAccounts } from './cli/commands/accounts.ts';
import { addAudit } from './cli/commands/audit.ts';
import { addCatalogEntries } from './cli/commands/catalog-entries.ts';
import { addCompletion } from './cli/commands/completion.ts';
import { addEndpoint } from './cli/commands/endpoint.ts';
import { addFallback } from './cli/commands/fallback.ts';
import { addGateway } from './cli/commands/gateway.ts';
import { type Go, json_text, timeout_text } from './cli/commands/go.ts';
import { addGuard } from './cli/commands/guard.ts';
import { addInside } from './cli/commands/inside.ts';
import { addKeys, addLimits } from './cli/commands/keys.ts';
import { addLaunch } from './cli/commands/launch.ts';
import { addLogin } from './cli/commands/login.ts';
import { addMachine } from './cli/commands/machine.ts';
import { addModels } from './cli/commands/models.ts';
import { addRegions } from './cli/commands/regions.ts';
import { addSecrets } from './cli/commands/secrets.ts';
import { addSsh } from './cli/commands/ssh.ts';
import { addTop } from './cli/commands/top.ts';
import { addUsage } from './cli/commands/usage.ts';
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
  parseSize,
} from './cli/parse.ts';
import { helpOf, usageText } from './cli/usage-text.ts';
import { programVersion } from './cli/version.ts';

/** Runs one command line; resolves with the exit code. `env` is the process's own unless given. */
export async function main(argv: string[], io: Io, env?: Environment): Promise<number> {
  let code = exitCode('ok');
  const go: Go = (work) => {
    return async (...args) => {
      const named = program.opts<{ dataDir?: string; context?: string }>();
      const config = loadConfig({ data_dir: named.dataDir, context: named.context }, env);
      const context = { config, io };
      const command: unknown = args.at(-1);
      const called = command instanceof Command ? command : program;
      code = await settle(context, called, () => work(context, ...args));
    };
  };
  const program = createProgram(io, go);
  try {
    await program.parseAsync(argv.length === 0 ? ['--help'] : argv, { from: 'user' });
    return code;
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode === 0) return exitCode('ok');
    if (!shows_help.has(error.code)) io.stderr.write(usageText(program, argv, error.message));
    return exitCode('usage');
  }
}

/** Of commander: what it showed instead of an error. */
const shows_help = new Set(['commander.help']);

/** The whole program, without running it. */
export function createProgram(io: Pick<Io, 'stdout' | 'stderr'>, go: Go): Command {
  const program = new Command('einsora')
    .description('A free, self-hosted GPU cloud for the machines you have.')
    .option('--data-dir <dir>', 'data folder of the control plane (or EINSORA_DATA_DIR)')
    .option('--context <name>', 'one of einsora context ls to use (or EINSORA_CONTEXT)')
    .version(programVersion(), '-V, --version', 'print the version')
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
      // Said by `main`, which knows what was called.
      outputError: () => undefined,
    })
    .exitOverride();
  program.commandsGroup('Serve:');
  addServing(program, go);
  program.commandsGroup('Workloads:');
  addLaunch(program, go);
  addUse(program, go);
  addWorkloads(program, go);
  addTop(program, go);
  addFallback(program, go);
  addSsh(program, go);
  addInside(program, go);
  addChanges(program, go);
  program.commandsGroup('Machines and models:');
  addPlace(program, go);
  addMachine(program, go);
  addGuard(program, go);
  addCatalogEntries(program, go);
  addRegions(program, go);
  addEndpoint(program, go);
  addKeys(program, go);
  addLimits(program, go);
  addModels(program, go);
  program.commandsGroup('People:');
  addAccounts(program, go);
  addLogin(program, go);
  program.commandsGroup('Limits, records, secrets:');
  addUsage(program, go);
  addGateway(program, go);
  addAudit(program, go);
  addSecrets(program, go);
  program.commandsGroup('Shell:');
  addCompletion(program, go);
  return program;
}

function addServing(program: Command, go: Go): void {
  program
    .command('up')
    .description('serve the control plane and run workloads on this machine')
    .option('--port <port>', 'port to serve on; 0 takes any', parsePort)
    .option('--no-open', 'do not open a browser')
    .option('--offer-cpu <cores>', 'CPU that workloads may use', parseAmount)
    .option('--offer-memory <size>', 'memory that workloads may use, such as 4GiB', parseSize)
    .option('--allow-lan', 'let containers into your local network, not into this machine')
    .option('--new-deployment-key', 'its key is lost: forget every secret, and make a new one')
    .addOption(new Option('--dev', 'allow machines that are made up (sim)').hideHelp())
    .addOption(new Option('--sim-machines <file>', 'in dev mode: a fleet to try').hideHelp())
    .action(go(async ({ config }, options) => (await import('./cli/up.ts')).up(options, config)));
  program
    .command('doctor')
    .description('what this machine can run, what it cannot, why, and what helps')
    .option('--json', json_text)
    .action(
      go(async ({ config }, options) => (await import('./cli/doctor.ts')).doctor(options, config)),
    );
}

function addUse(program: Command, go: Go): void {
  program
    .command('chat')
    .description('ask an endpoint: one answer, or a conversation where no message is given')
    .argument('<workload>', 'name or id')
    .argument('[message]', 'the question; from a pipe it is read from stdin')
    .option('--system <text>', 'instructions that come before the conversation')
    .option('--max-tokens <count>', 'longest answer, in tokens', parseCount)
    .option('--temperature <number>', '0 is the least random', parseAmount)
    .option('--json', json_text)
    .action(
      go(async (context, name: string, message: string | undefined, options) =>
        (await import('./cli/chat.ts')).chat(context, name, message, options),
      ),
    );
  program
    .command('open')
    .description(
      'open the dashboard, or the web page of a workload, in a browser that is signed in',
    )
    .argument('[workload]', 'name or id of a notebook; the dashboard where it is left out')
    .option('--no-browser', 'only print the link')
    .option('--json', json_text)
    .action(
      go(async (context, name: string | undefined, options) =>
        (await import('./cli/open.ts')).open(context, name, options),
      ),
    );
}

function addWorkloads(program: Command, go: Go): void {
  program
    .command('ls')
    .description('the workloads')
    .option('--all', 'deleted ones too')
    .option('--json', json_text)
    .action(go(async (context, options) => (await import('./cli/ls.ts')).ls(context, options)));
  const one = (name: string, what: string) =>
    program
      .command(name)
      .description(what)
      .argument('<workload>', 'name or id')
      .option('--json', name === 'show' ? json_text : `${json_text}; with -f one for each line`);
  one('show', 'all about one workload').action(
    go(async (context, name: string, options) =>
      (await import('./cli/show.ts')).show(context, name, options),
    ),
  );
  one('events', 'its timeline, oldest first')
    .option('-f, --follow', 'stay for what follows')
    .action(
      go(async (context, name: string, options) =>
        (await import('./cli/events.ts')).events(context, name, options),
      ),
    );
  one('logs', 'what its current run printed')
    .option('-f, --follow', 'stay for what follows')
    .option('--tail <lines>', 'only the last lines', parseCountOrZero)
    .option(
      '--replica <number>',
      'of an endpoint with several: which one, from 0',
      parseCountOrZero,
    )
    .action(
      go(async (context, name: string, options) =>
        (await import('./cli/logs.ts')).logs(context, name, options),
      ),
    );
}

function addChanges(program: Command, go: Go): void {
  const many = (name: string, what: string) =>
    program
      .command(name)
      .description(what)
      .argument('<workload...>', 'names or ids')
      .option('--detach', 'leave once it is recorded')
      .option('--timeout <time>', timeout_text, parseDuration)
      .option('--json', json_text);
  many('stop', 'stop: frees what it holds, keeps its disks').action(
    go(async (context, names: string[], options) =>
      (await import('./cli/stop.ts')).stop(context, names, options),
    ),
  );
  many('start', 'start what is stopped or failed, and stay until it runs').action(
    go(async (context, names: string[], options) =>
      (await import('./cli/start.ts')).start(context, names, options),
    ),
  );
  many('rm', 'delete; its history stays').action(
    go(async (context, names: string[], options) =>
      (await import('./cli/stop.ts')).rm(context, names, options),
    ),
  );
}

function addPlace(program: Command, go: Go): void {
  program
    .command('machines')
    .description('the machines: what they offer, what is free, what cannot run there and why')
    .option('--json', json_text)
    .action(
      go(async (context, options) =>
        (await import('./cli/machines.ts')).machines(context, options),
      ),
    );
  program
    .command('catalog')
    .description('models and classes to ask for')
    .option('--json', json_text)
    .action(
      go(async (context, options) => (await import('./cli/catalog.ts')).catalog(context, options)),
    );
  program
    .command('version')
    .description('versions of this program and of the control plane that serves')
    .option('--json', json_text)
    .action(
      go(async (context, options) => (await import('./cli/version.ts')).version(context, options)),
    );
}

/** Runs a command; an expected failure is said, and becomes its exit code. */
async function settle(
  context: Context,
  called: Command,
  work: () => Promise<number>,
): Promise<number> {
  try {
    return await work();
  } catch (thrown) {
    const error = asCliError(thrown);
    if (error.exit === 'usage') error.fix ??= helpOf(called);
    error.fix = fixHere(context.config, error.fix);
    sayError(context, error);
    // A fault of ours: where it came from is for whoever asked for details.
    if (error.code === 'internal' && context.config.log_level === 'debug') console.error(thrown);
    if (called.opts().json === true) printJson(context, error.body());
    return exitCode(error.exit);
  }
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2), processIo());
