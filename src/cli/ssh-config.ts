/**
 * `einsora ssh-config`: what makes `ssh NAME.einsora`, scp, sftp, rsync, git and editors reach
 * workloads: printed, or written and included by ~/.ssh/config.
 *
 * Invariants: of ~/.ssh/config only our own block between its marks changes, and its mode stays;
 * doing it twice changes nothing; `--remove` leaves what was there before.
 */
import { existsSync, readdirSync, realpathSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { makePrivateFolder, readIfThere, writeDurably } from '../lib/files.ts';
import { CliError, shellWord, usageError } from './cli-error.ts';
import type { Config } from './config.ts';
import { exitCode } from './exit-codes.ts';
import type { Context } from './io.ts';
import { printData, printJson, say } from './output.ts';
import {
  type Deployment,
  findDeployment,
  pinHostKey,
  quoted,
  sshFolder,
  sshSettings,
  unpinHostKey,
} from './ssh-settings.ts';

export type SshConfigOptions = { write?: boolean; remove?: boolean; json?: boolean };

const begin = '# >>> einsora: written by einsora ssh-config >>>';
const end = '# <<< einsora <<<';

export async function sshConfig(context: Context, options: SshConfigOptions): Promise<number> {
  const { config } = context;
  if (options.write && options.remove) throw usageError('--write and --remove exclude each other');
  const deployment = findDeployment(config);
  const path = join(config.home_dir, '.ssh', 'config');
  const shown = { host: `*${deployment.suffix}`, hosts_file: deployment.hosts_file, config: path };
  if (options.remove) {
    const had = unpinHostKey(deployment);
    if (!hasHosts(config)) changeConfig(path, withoutBlock);
    if (options.json) printJson(context, { ...shown, removed: had });
    else say(context, had ? `${path} leads to no workload here any more.` : 'There was nothing.');
    return exitCode('ok');
  }
  await pinHostKey(context, deployment);
  if (!options.write) {
    if (options.json) printJson(context, { ...shown, text: hostsText(deployment) });
    else printData(context, hostsText(deployment).trimEnd());
    return exitCode('ok');
  }
  makePrivateFolder(dirname(deployment.hosts_file));
  writeIfOther(deployment.hosts_file, hostsText(deployment));
  const block = includeBlock(config);
  changeConfig(path, (was) => `${block}${withoutBlock(was)}`);
  if (options.json) printJson(context, { ...shown, written: true });
  else say(context, `Now there is: ssh NAME${deployment.suffix}, and scp, sftp, rsync the same.`);
  return exitCode('ok');
}

function hostsText(deployment: Deployment): string {
  const { suffix, url } = deployment;
  // Of one deployment no host is another's; a quote would end the word in ProxyCommand.
  const others = suffix === '.einsora' ? ' !*.*.einsora' : '';
  const lines = sshSettings(deployment, '%n').map(([name, value]) => `  ${name} ${value}\n`);
  return `# Workloads of ${url}.\nHost *${suffix}${others} "!*'*"\n${lines.join('')}`;
}

/** At the top, for below a Host it would count for that host alone. */
function includeBlock(config: Config): string {
  const pattern = join(sshFolder(config), 'hosts');
  if (/[*?[\]]/.test(pattern)) {
    throw usageError(`${pattern} cannot be included: OpenSSH takes it for a pattern`);
  }
  return `${begin}\nInclude ${quoted(`${pattern}/*.conf`)}\n${end}\n`;
}

function hasHosts(config: Config): boolean {
  const folder = join(sshFolder(config), 'hosts');
  return existsSync(folder) && readdirSync(folder).some((name) => name.endsWith('.conf'));
}

/** What stands around our block. */
function withoutBlock(text: string): string {
  const from = text.indexOf(begin);
  const to = text.indexOf(end);
  if (from < 0 && to < 0) return text;
  if (from < 0 || to < from) {
    throw new CliError({
      code: 'ssh_config_torn',
      message: 'One mark of our block in ~/.ssh/config is gone, so it is left alone.',
      fix: `remove the lines from ${shellWord(begin)} on`,
      exit: 'failed',
    });
  }
  const after = text.slice(to + end.length).replace(/^\r?\n/, '');
  return text.slice(0, from) + after;
}

function changeConfig(path: string, change: (was: string) => string): void {
  const was = readIfThere(path);
  const next = change(was ?? '');
  if (next === (was ?? '')) return;
  // Where it is a link to somewhere else, that is where it is changed.
  const target = was === null ? path : realpathSync(path);
  makePrivateFolder(dirname(path));
  const mode = was === null ? 0o600 : statSync(target).mode & 0o777;
  if (next === '') rmSync(target);
  else writeDurably(target, next, mode);
}

function writeIfOther(path: string, text: string): void {
  if (readIfThere(path) !== text) writeDurably(path, text);
}
