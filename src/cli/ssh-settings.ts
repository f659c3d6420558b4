/**
 * How OpenSSH's client reaches a workload: by this program as its ProxyCommand, and with the host
 * key that the control plane told us, pinned in a file of our own (ADR-0047).
 *
 * Invariants: nothing of it depends on what the user's own files say; every path stands whole, and
 * quoted for who reads it: the shell that runs a ProxyCommand, or OpenSSH's own parser.
 */
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { SshFacts } from '../contract/routes/ssh.ts';
import { makePrivateFolder, readIfThere, writeDurably } from '../lib/files.ts';
import { digest } from '../lib/secret.ts';
import { shellWord, usageError } from './cli-error.ts';
import { openClient } from './client.ts';
import { type Config, local_context } from './config.ts';
import { findConnection } from './connection.ts';
import type { Context } from './io.ts';
import { say } from './output.ts';

const launcher = join(import.meta.dirname, '../../bin/einsora');

/** Of a deployment, as SSH knows it here. */
export type Deployment = {
  url: string;
  /** By which this program is told which control plane is meant, whichever is current then. */
  place: string[];
  /** Stands for all of its workloads in place of a host's name. */
  alias: string;
  /** What comes after a workload's name: `.einsora`, or `.lab.einsora` of the context lab. */
  suffix: string;
  folder: string;
  known_hosts: string;
  /** Its part of the configuration, which ~/.ssh/config includes. */
  hosts_file: string;
};

export function sshFolder(config: Config): string {
  return join(config.config_dir, 'ssh');
}

/** Throws a CliError where no control plane is meant. */
export function findDeployment(config: Config): Deployment {
  const { url, context } = findConnection(config);
  const folder = sshFolder(config);
  const of = context ?? local_context;
  const name = context === null ? `${of}-${digest(config.data_dir).slice(0, 8)}` : fileName(of);
  const place = context === null ? ['--data-dir', config.data_dir] : ['--context', context];
  return {
    ...{ url, place, folder, alias: `einsora-${name}` },
    suffix: context === null ? '.einsora' : `.${fileName(of)}.einsora`,
    known_hosts: join(folder, `${name}.known_hosts`),
    hosts_file: join(folder, 'hosts', `${name}.conf`),
  };
}

/** A context's name where it can stand in a host's, else something that does. */
function fileName(name: string): string {
  return /^[a-z0-9][a-z0-9-]{0,40}$/.test(name) ? name : digest(name).slice(0, 12);
}

/** Asks the control plane for its host key, and pins it. */
export async function pinHostKey(context: Context, deployment: Deployment): Promise<void> {
  const { host_key } = await openClient(context).call<SshFacts>('GET', '/v1/ssh');
  const { alias, known_hosts, folder } = deployment;
  if (!/^ssh-ed25519 [A-Za-z0-9+/=]+$/.test(host_key)) throw usageError('that is no host key');
  const line = `${alias} ${host_key}\n`;
  const known = readIfThere(known_hosts);
  if (known === line) return;
  if (known !== null) say(context, `The SSH host key of ${deployment.url} is a new one.`);
  makePrivateFolder(folder);
  writeDurably(known_hosts, line);
}

export function unpinHostKey({ known_hosts, hosts_file }: Deployment): boolean {
  const had = existsSync(hosts_file);
  rmSync(known_hosts, { force: true });
  rmSync(hosts_file, { force: true });
  return had;
}

/** OpenSSH's settings, by name. `host` is a workload's name, or `%n` for the one that was typed. */
export function sshSettings(
  { alias, known_hosts, place }: Deployment,
  host: string,
): [string, string][] {
  return [
    ['ProxyCommand', proxyCommand(place, host)],
    ['HostKeyAlias', alias],
    ['UserKnownHostsFile', quoted(percent(known_hosts))],
    ['GlobalKnownHostsFile', '/dev/null'],
    ['StrictHostKeyChecking', 'yes'],
    ['UpdateHostKeys', 'no'],
  ];
}

/** Run by the user's shell, after OpenSSH has put in what stands for `%`. */
function proxyCommand(place: string[], host: string): string {
  const words = [launcher, ...place, 'ssh-proxy'].map((word) => percent(shellWord(word)));
  return [...words, `'${host}'`].join(' ');
}

function percent(text: string): string {
  return text.replaceAll('%', '%%');
}

/** A value for OpenSSH's parser. */
export function quoted(path: string): string {
  if (/[\n\r]/.test(path)) throw usageError('a path with a line break cannot be told to OpenSSH');
  return `"${path.replaceAll(/["\\]/g, '\\$&')}"`;
}
