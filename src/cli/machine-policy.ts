/**
 * `einsora machine policy show|check|path`: the file by which a machine's owner keeps it theirs.
 *
 * Invariants: looks and changes nothing; a file that would not be understood is said with its line,
 * and with another exit code.
 */
import { resolve } from 'node:path';
import type { Policy } from '../agent/policy.ts';
import { formatBytes, formatDuration, formatMemory } from '../core/format.ts';
import { reasonError } from './cli-error.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { pairLines, printData, printJson, say } from './output.ts';

type Options = { json?: boolean };

export async function showPolicy(context: Context, options: Options): Promise<number> {
  const { openPolicy, policyPaths } = await import('../agent/policy-source.ts');
  const paths = policyPaths(context.config.data_dir);
  const { policy, path, problem } = openPolicy(paths).current();
  if (options.json) printJson(context, { path, problem, paths, policy });
  else {
    say(context, path === null ? 'There is no policy file: these are the defaults.' : path);
    if (problem !== null) {
      say(context, `It is not understood: ${problem}.`);
      say(
        context,
        'A running agent keeps to the last one that was; one that begins lets no guest in.',
      );
    }
    for (const line of lines(policy)) printData(context, line);
  }
  return exitCode(problem === null ? 'ok' : 'failed');
}

export async function checkPolicy(
  context: Context,
  file: string,
  options: Options,
): Promise<number> {
  const { openPolicy } = await import('../agent/policy-source.ts');
  const asked = resolve(context.io.cwd, file);
  const { policy, path, problem } = openPolicy([asked]).current();
  const wrong = path === null ? 'it is not there' : problem;
  if (wrong !== null) {
    throw reasonError('policy_invalid', { path: asked, problem: wrong }, 'failed');
  }
  if (options.json) printJson(context, { path, policy });
  else {
    say(context, `${asked} is understood. In force it would be:`);
    for (const line of lines(policy)) printData(context, line);
  }
  return exitCode('ok');
}

export async function printPolicyPath(context: Context, options: Options): Promise<number> {
  const { openPolicy, policyPaths } = await import('../agent/policy-source.ts');
  const paths = policyPaths(context.config.data_dir);
  const { path } = openPolicy(paths).current();
  if (options.json) printJson(context, { path, paths });
  else printData(context, path ?? paths[0] ?? '');
  return exitCode('ok');
}

const answers = ['ignored', 'nothing new', 'little CPU', 'stand still', 'told to go'] as const;

function lines(policy: Policy): string[] {
  const { refuses, reserve, hours, heat } = policy;
  const list = (names: readonly string[] | null) => names?.join(', ') ?? 'any';
  const answer = (level: number) => answers[level] ?? String(level);
  const cpu = reserve.cpu_millis;
  const max_cpu = refuses.max_cpu_millis;
  return pairLines([
    ['applies to', policy.applies_to],
    ['guests', refuses.guests ? 'allowed' : 'none'],
    ['kinds', list(refuses.kinds)],
    ['tenants', list(refuses.tenants)],
    ['drivers', list(refuses.drivers)],
    ['images', list(refuses.images_allow)],
    ['images denied', refuses.images_deny.length === 0 ? 'none' : list(refuses.images_deny)],
    ['most cpu', max_cpu === null ? 'as offered' : String(max_cpu / 1000)],
    ['most memory', amount(refuses.max_memory_bytes, formatMemory, 'as offered')],
    ['most gpus', refuses.max_gpus === null ? 'as offered' : String(refuses.max_gpus)],
    ['hours', hours === null ? 'all day' : hours.map(spanText).join(', ')],
    ['kept cpu', cpu === null ? 'a quarter' : String(cpu / 1000)],
    ['kept memory', amount(reserve.memory_bytes, formatMemory, 'a quarter')],
    ['kept disk', amount(reserve.disk_bytes, formatBytes, '20 GB or a tenth')],
    ['when active', answer(policy.when_active)],
    ['on battery', answer(policy.on_battery)],
    ['gpu in use', answer(policy.when_gpu_used)],
    ['away after', formatDuration(policy.away_ms)],
    ['grace', formatDuration(policy.grace_ms)],
    ['too hot', `processor ${heat.cpu} °C, GPU ${heat.gpu} °C`],
  ]);
}

function amount(value: number | null, format: (bytes: number) => string, otherwise: string) {
  return value === null ? otherwise : format(value);
}

function spanText({ from, to }: { from: number; to: number }): string {
  const time = (minute: number) =>
    `${String(Math.floor(minute / 60)).padStart(2, '0')}:${String(minute % 60).padStart(2, '0')}`;
  return `${time(from)}-${time(to)}`;
}
